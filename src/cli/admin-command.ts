import { systemClock } from '../base/clock.ts'
import type { AdminService } from './admin/admin-service.ts'
import { unknownVariables } from './environment.ts'
import type { StoreFlags } from './flags.ts'
import { createLog } from './log.ts'

/**
 * Runs an owner's command on the store that the flags name, and lets go of it. What is slow to load (the engine, the S3
 * client) is loaded here, so that help and usage errors come at once.
 */
export async function runAdmin<T>(flags: StoreFlags, run: (admin: AdminService) => Promise<T>): Promise<T> {
  const log = createLog(flags.logLevel, process.stderr)
  for (const name of unknownVariables(process.env))
    log.warn({ name }, 'a variable that cellstore does not know is set')
  const { connectAdmin } = await import('./admin/connect.ts')
  const admin = await connectAdmin(flags, systemClock, log)
  try {
    return await run(admin)
  } finally {
    await admin.close()
  }
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
