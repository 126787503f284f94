import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { noStrace } from '../support/faults/strace.ts'
import { checkIntegrity } from '../support/integrity.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const PROGRAM = path.join(import.meta.dirname, '../support/failing-disk-program.ts')

interface Seen {
  acknowledged: number[]
  refused: number
  reason: string
  found: number[]
  after: number[]
}

/** Runs the program on a disk that fails one call on the cell's log or database. */
function onFailingDisk(call: string, file: 'cell.db' | 'cell.db-wal', when: number): Seen {
  const directory = tempDirectory()
  const inject = `inject=${call}:error=EIO:when=${when}`
  const tracing = ['-f', '-qq', '-o', '/dev/null', '-P', path.join(directory, file), '-e', `trace=${call}`]
  const output = execFileSync('strace', [...tracing, '-e', inject, process.execPath, PROGRAM, directory], {
    encoding: 'utf8',
  })
  checkIntegrity(directory)
  return JSON.parse(output)
}

describe.skipIf(noStrace !== undefined)(
  `a disk that fails once${noStrace === undefined ? '' : ` (${noStrace})`}`,
  () => {
    // The first fsync of the log is that of its header.
    test.each([2, 3, 10])(
      'at fsync %i of the log: the row is refused and not there later, all acknowledged ones are, and the cell goes on by itself',
      (when) => {
        const { acknowledged, refused, reason, found, after } = onFailingDisk('fsync', 'cell.db-wal', when)
        expect([refused, reason]).toEqual([when - 1, 'io_error'])
        expect(found).toEqual(acknowledged.filter((row) => row < refused))
        expect(after).toEqual(acknowledged)
        expect(acknowledged).toHaveLength(when - 2 + 5)
      },
      30_000,
    )

    test('at a write of the log: the same', () => {
      const { acknowledged, refused, found, after } = onFailingDisk('pwrite64', 'cell.db-wal', 8)
      expect(found).toEqual(acknowledged.filter((row) => row < refused))
      expect(after).toEqual(acknowledged)
    })
  },
)
