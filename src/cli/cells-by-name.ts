import { isCellId } from '../base/store-paths.ts'
import { CellError } from '../errors.ts'
import type { StoreClient } from './store-client.ts'

type Method = (input: unknown, ...rest: unknown[]) => unknown

/** The client, with names in place of ids: in the field `cell` of every method's input. */
export function withNames<C extends Pick<StoreClient, 'listCells'>>(client: C): C {
  return new Proxy(client, {
    get(target, property) {
      const member: unknown = Reflect.get(target, property)
      if (typeof member !== 'function') return member
      const method = member.bind(target) as Method
      return (input: unknown, ...rest: unknown[]) =>
        isNamed(input) ? byId(target, input).then((found) => method(found, ...rest)) : method(input, ...rest)
    },
  })
}

/** A text that has the form of an id is one, also if some cell has it as its name. */
function isNamed(input: unknown): input is { cell: string } {
  const { cell } = Object(input) as { cell?: unknown }
  return typeof cell === 'string' && !isCellId(cell)
}

/** @throws `cell_not_found`, `name_ambiguous` */
async function byId(client: Pick<StoreClient, 'listCells'>, input: { cell: string }) {
  const { databases } = await client.listCells({ name: input.cell })
  const [found, ...others] = databases
  if (found === undefined)
    throw new CellError(
      'cell_not_found',
      'There is no cell with this id or name. A deleted cell has only its id.',
    )
  if (others.length === 0) return { ...input, cell: found.id }
  const ids = databases.map(({ id, account_id }) => `${id} (account ${account_id ?? 'none'})`)
  throw new CellError('name_ambiguous', `Several cells have this name: ${ids.join(', ')}. Use an id.`, {
    field: 'cell',
  })
}
