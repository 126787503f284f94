import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { ended } from '../support/child.ts'
import { countOf } from '../support/counts.ts'
import { Acknowledgements, type Event } from '../support/faults/acknowledgements.ts'
import { checkAfterPowerLoss } from '../support/faults/after-power-loss.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { Random } from '../support/random.ts'
import { seededRandom } from '../support/seed.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

const RUNS = countOf('CELLSTORE_FOREIGN_RUNS')

vi.setConfig({ testTimeout: 180_000 + RUNS * 150_000 })

test(`no acknowledged change is lost when other programs open and close the files of a store that works and is then killed (invariant 4; ${RUNS} runs)`, async () => {
  const random = seededRandom()
  for (let run = 0; run < RUNS; run++) {
    const root = tempDirectory('cellstore-foreign')
    fs.mkdirSync(path.join(root, 'data'))
    const store = start('ledger-program.ts', root, String(random.below(2 ** 31)), '1000000')
    store.child.stdin.write('go\n')
    const readers = [1, 2].map(() => start('reader-program.ts', path.join(root, 'data')))
    const enough = 200 + random.below(1_000)
    await until(
      () => store.lines().length > enough || store.child.exitCode !== null,
      'it has written enough',
      120_000,
    )
    store.child.kill('SIGKILL')
    await ended(store.child)
    expect(store.child.signalCode).toBe('SIGKILL')
    // The readers are the last to have the files open, and so the ones to delete the logs.
    const reads = await Promise.all(readers.map(stopReading))
    expect(Math.min(...reads)).toBeGreaterThan(0)
    const acknowledged = new Acknowledgements()
    for (const line of store.lines().filter((each) => each.startsWith('{'))) {
      acknowledged.hear(JSON.parse(line) as Event)
    }
    await checkAfterPowerLoss(root, acknowledged, 'full', new Random(random.below(2 ** 31)))
    console.info(
      `${reads.reduce((a, b) => a + b)} openings beside ${store.lines().length} lines: nothing lost`,
    )
  }
})

const hasShell = (() => {
  try {
    execFileSync('sqlite3', ['-version'])
    return true
  } catch {
    return false
  }
})()

test.runIf(!hasShell)('the sqlite3 shell was not tried on a live cell: it is not installed', () => {})

test.skipIf(!hasShell)(
  'the sqlite3 shell can look at a live cell: it sees what is committed, and costs nothing',
  async () => {
    const objectStore = `file://${path.join(tempDirectory(), 'objects')}`
    const { store, cell, directory } = await openTestCell({ objectStore })
    const { database, wal } = new StorePaths(directory).cell(cell.id)
    const look = () =>
      execFileSync('sqlite3', [database, "SELECT group_concat(key, ' ') FROM _cell_kv"], {
        encoding: 'utf8',
      }).trim()
    for (const [i, deed] of [
      () => {},
      () => store.backups.snapshot(cell.id),
      () => store.backups.incremental(cell.id),
      () => store.openCell(cell.id).sizeBytes,
      () => store.backups.list(cell.id),
    ].entries()) {
      cell.kv.put(`k${i}`, 'v')
      await deed()
      cell.kv.put(`k${i}`, 'w')
      const inode = fs.statSync(wal).ino
      expect(look().split(' ')).toHaveLength(i + 1)
      // The log is the one that the cell writes, and not a new one.
      expect(fs.statSync(wal).ino).toBe(inode)
    }
  },
)

interface Started {
  child: ChildProcessWithoutNullStreams
  /** Complete ones; what a kill cut off does not count. */
  lines(): string[]
}

function start(program: string, ...args: string[]): Started {
  const file = path.join(import.meta.dirname, '../support/faults/programs', program)
  const child = spawn(process.execPath, ['--no-warnings', file, ...args])
  child.stderr.pipe(process.stderr)
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  return { child, lines: () => output.split('\n').slice(0, -1) }
}

/** @returns how often it has opened a file */
async function stopReading({ child, lines }: Started): Promise<number> {
  child.stdin.end()
  await ended(child)
  return Number(lines().at(-1))
}
