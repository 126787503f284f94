import { CellError } from '../errors.ts'

const NAME_CHARACTERS_MAX = 255

/** @throws `invalid_request` for a name that is too long or not valid Unicode */
export function checkDisplayName(name: string | undefined): void {
  if (name === undefined) return
  if (typeof name === 'string' && name.isWellFormed() && name.length <= NAME_CHARACTERS_MAX) return
  throw new CellError('invalid_request', `name is a string of at most ${NAME_CHARACTERS_MAX} characters.`, {
    field: 'name',
    limit: NAME_CHARACTERS_MAX,
  })
}
