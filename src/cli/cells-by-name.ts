import { isCellId } from '../base/store-paths.ts'
import { CellError } from '../errors.ts'
import type { StoreClient } from './store-client.ts'

type Method = (input: unknown, ...rest: unknown[]) => unknown
type Lister = Pick<StoreClient, 'listCells'>
/** What an input may hold of cells, and of the account whose cells they are. */
type Naming = { cell?: unknown; from?: unknown; cell_ids?: unknown; account?: string }

/** The client, with names in place of ids: in the fields `cell`, `from` and `cell_ids` of every method's input. */
export function withNames<C extends Lister>(client: C): C {
  return new Proxy(client, {
    get(target, property) {
      const member: unknown = Reflect.get(target, property)
      if (typeof member !== 'function') return member
      const method = member.bind(target) as Method
      return (input: unknown, ...rest: unknown[]) =>
        hasName(input)
          ? withIds(target, input).then((found) => method(found, ...rest))
          : method(input, ...rest)
    },
  })
}

function hasName(input: unknown): input is Naming {
  const { cell, from, cell_ids } = Object(input) as Naming
  return [cell, from, cell_ids].flat().some(isName)
}

/** A text that has the form of an id is one, also if some cell has it as its name. */
function isName(text: unknown): text is string {
  return typeof text === 'string' && !isCellId(text)
}

async function withIds(client: Lister, input: Naming): Promise<Naming> {
  const { cell, from, cell_ids, account } = input
  const idOf = async (text: unknown) => (isName(text) ? await lookUp(client, text, account) : text)
  if (Array.isArray(cell_ids)) return { ...input, cell_ids: await Promise.all(cell_ids.map(idOf)) }
  if (from !== undefined) return { ...input, from: await idOf(from) }
  return { ...input, cell: await idOf(cell) }
}

/** @throws `cell_not_found`, `name_ambiguous` */
async function lookUp(client: Lister, name: string, account: string | undefined): Promise<string> {
  const { databases } = await client.listCells({ name, account })
  const [found, ...others] = databases
  if (found === undefined)
    throw new CellError(
      'cell_not_found',
      'There is no cell with this id or name. A deleted cell has only its id.',
    )
  if (others.length === 0) return found.id
  const ids = databases.map(({ id, account_id }) => `${id} (account ${account_id ?? 'none'})`)
  throw new CellError('name_ambiguous', `Several cells have this name: ${ids.join(', ')}. Use an id.`, {
    field: 'cell',
  })
}
