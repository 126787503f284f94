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

test.skipIf(noStrace !== undefined)('the copy of a long log reaches the disk in pieces', async () => {
  const root = tempDirectory('cellstore-copies')
  const output = path.join(root, 'trace')
  // SQLite calls fsync: what calls fdatasync is ours.
  const { lines } = await ProgramUnderStrace.run('large-transaction-program.ts', [root, String(ROWS)], {
    output,
    calls: ['fdatasync'],
  })
  expect(lines).toEqual(['committed'])
  let flushes = 0
  for await (const call of readTrace(output)) if (pathOf(call).includes('/segments/')) flushes++
  expect(flushes).toBeGreaterThanOrEqual(Math.floor(COPIED_BYTES / PIECE_BYTES))
})
