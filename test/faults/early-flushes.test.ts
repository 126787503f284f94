import path from 'node:path'
import { expect, test } from 'vitest'
import { noStrace, ProgramUnderStrace } from '../support/faults/strace.ts'
import { pathOf, readTrace } from '../support/faults/trace.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const ROWS = 24_000
/** Of half as many the log is copied: it is shorter than the database. */
const COPIED_BYTES = (ROWS / 2) * 1_000
const PIECE_BYTES = 4 * 1_048_576

test.runIf(noStrace !== undefined)(`flushes were not traced: ${noStrace}`, () => {})

test.skipIf(noStrace !== undefined)(
  'a large transaction, its checkpoint and the copy of its log reach the disk in pieces',
  async () => {
    const root = tempDirectory('cellstore-flushes')
    const output = path.join(root, 'trace')
    // SQLite calls fsync: what calls fdatasync is ours.
    const { lines } = await ProgramUnderStrace.run('large-transaction-program.ts', [root, String(ROWS)], {
      output,
      calls: ['fdatasync'],
    })
    expect(lines).toEqual(['committed'])
    const flushes = { log: 0, database: 0, copy: 0 }
    for await (const call of readTrace(output)) {
      const file = pathOf(call)
      if (file.endsWith('/cell.db-wal')) flushes.log++
      if (file.endsWith('/cell.db')) flushes.database++
      if (file.includes('/segments/')) flushes.copy++
    }
    expect(flushes.log).toBeGreaterThan(1)
    expect(flushes.database).toBeGreaterThan(1)
    expect(flushes.copy).toBeGreaterThanOrEqual(Math.floor(COPIED_BYTES / PIECE_BYTES))
  },
)
