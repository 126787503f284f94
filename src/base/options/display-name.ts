import { CellError } from '../../errors.ts'

const NAME_CHARACTERS_MAX = 255

/** Characters are code points, as JSON Schema counts them. @throws `invalid_request` for a name that is too long or not valid Unicode */
export function checkDisplayName(name: string | undefined): void {
  if (name === undefined) return
  if (typeof name === 'string' && name.isWellFormed() && !isTooLong(name)) return
  throw new CellError('invalid_request', `name is a string of at most ${NAME_CHARACTERS_MAX} characters.`, {
    field: 'name',
    limit: NAME_CHARACTERS_MAX,
  })
}

function isTooLong(name: string): boolean {
  if (name.length <= NAME_CHARACTERS_MAX) return false
  return name.length > 2 * NAME_CHARACTERS_MAX || [...name].length > NAME_CHARACTERS_MAX
}
