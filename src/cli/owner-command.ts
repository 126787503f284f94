import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { isCellId } from '../base/files/store-paths.ts'
import { CellError } from '../errors.ts'
import type { CellPageDocument } from '../http/routes/owner/owner-routes.ts'
import type { StoreFlags } from './flags.ts'
import { createLog } from './log.ts'
import type { OwnerClient } from './owner/owner-client.ts'
import { remoteNodeOf } from './remote/remote-node.ts'
import type { StoreClient } from './store-client.ts'
import { printNote } from './terminal/output.ts'

/** Of a command line whose parts do not fit together. */
export const USAGE = { code: 'commander.conflictingOption', exitCode: 2 }

/**
 * Runs an owner's command on the store that the flags name, and closes the store after it. What is slow to load is loaded
 * here, so that help and usage errors come at once.
 *
 * @param options.bringsBack the command may bring back a store from the object store
 */
export async function runOwnerCommand<T>(
  flags: StoreFlags,
  run: (client: OwnerClient) => Promise<T>,
  { bringsBack = false }: { bringsBack?: boolean } = {},
): Promise<T> {
  const log = createLog(flags.logLevel, process.stderr)
  const { connectOwner } = await import('./owner/connect.ts')
  const client = await connectOwner(flags, systemClock, log, bringsBack)
  try {
    return await run(withNames(client))
  } finally {
    const note = client.unstored
    await client.close()
    if (note !== undefined) printNote(flags.json, note)
  }
}

/**
 * Runs a command that an account may give too: on the remote node that the flags name, or else as the owner of the store that
 * they name.
 */
export async function runStoreCommand<T>(
  flags: StoreFlags,
  run: (client: StoreClient) => Promise<T>,
): Promise<T> {
  if (flags.url === undefined) return await runOwnerCommand(flags, run)
  const { RemoteClient } = await import('./remote/remote-client.ts')
  return await run(withNames(new RemoteClient(remoteNodeOf(flags.url, flags, process.env), systemClock)))
}

/** Reads a listing page by page, to its end. */
export async function allPages<Page extends { next_cursor: string | null }, Entry>(
  read: (cursor: string | undefined) => Promise<Page>,
  entries: (page: Page) => Entry[],
): Promise<Entry[]> {
  const all: Entry[] = []
  let cursor: string | undefined
  do {
    const page = await read(cursor)
    all.push(...entries(page))
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  return all
}

/** A store's cells, oldest first. */
export function allCells(client: OwnerClient): Promise<CellPageDocument['databases']> {
  return allPages(
    (cursor) => client.listCells({ cursor }),
    (page) => page.databases,
  )
}

/** For a command that takes the id of one cell, or `--all`: both, or neither, is a wrong command line. */
export function checkCellOrAll(command: Command, cell: string | undefined, all: true | undefined): void {
  if ((cell === undefined) === (all === undefined))
    command.error('error: name a cell, or use --all for every cell', USAGE)
}

type Method = (input: unknown, ...rest: unknown[]) => unknown
type Lister = Pick<StoreClient, 'listCells'>
/** What an input may hold of cells, and of the account whose cells they are. */
type Naming = { cell?: unknown; from?: unknown; cell_ids?: unknown; account?: string }

/** The client, with names in place of ids: in the fields `cell`, `from` and `cell_ids` of every method's input. */
function withNames<C extends Lister>(client: C): C {
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
