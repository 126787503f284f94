import { DATABASE_MEMBER } from '../archive/manifest.ts'
import { OWN_THREAD_BYTES } from './restore-builder.ts'
import { proveDatabase } from './restore-database.ts'
import type { RestoreThreads } from './restore-threads.ts'

/**
 * Runs SQLite's check of every page on a copy of a database that is about to be stored, on a thread if it is large.
 *
 * @throws `backup_corrupt`
 */
export async function proveCopy(file: string, size: number, threads: RestoreThreads): Promise<void> {
  if (size < OWN_THREAD_BYTES) return proveDatabase(file, DATABASE_MEMBER)
  const thread = threads.take()
  try {
    await thread.run({ kind: 'prove', file, member: DATABASE_MEMBER })
  } catch (error) {
    await thread.close()
    throw error
  }
  await threads.release(thread)
}
