import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import type { CellPageDocument } from '../http/owner-routes.ts'
import { withNames } from './cells-by-name.ts'
import type { StoreFlags } from './flags.ts'
import { createLog } from './log.ts'
import { printNote } from './output.ts'
import type { OwnerClient } from './owner/owner-client.ts'
import { remoteNodeOf } from './remote/remote-node.ts'
import type { StoreClient } from './store-client.ts'

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
