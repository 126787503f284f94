import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, test } from 'vitest'
import { RestoreThreads } from '../../../src/backup/restore/restore-threads.ts'
import { CheckProcesses } from '../../../src/workers/archiver/check-processes.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { KeptLog } from '../../support/kept-log.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { until } from '../../support/until.ts'

/** Hours for each row, on a database of two pages. */
const ENDLESS = "instr(hex(zeroblob(20000000 + (n IS NULL))), hex(zeroblob(10000000)) || '1')"
const ALL_MEMORY = 'hex(zeroblob(400000000 + (n IS NULL)))'
const QUICK = 'n + 1'

/** Checks that run at the same time. */
const AT_ONCE = 2

let clock: FakeClock
let log: KeptLog
let threads: RestoreThreads
beforeEach(() => {
  clock = new FakeClock()
  log = new KeptLog()
  threads = new RestoreThreads(clock, 1, new CheckProcesses(clock, log))
})

function databaseWith(expression: string): { file: string; size: number } {
  const file = path.join(tempDirectory('cellstore-endless-check'), 'cell.db')
  const connection = new Database(file)
  connection.exec(
    `CREATE TABLE t (n); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN g TEXT AS (${expression})`,
  )
  connection.close()
  return { file, size: fs.statSync(file).size }
}

/** Lets the deadlines of the checks that run now pass. */
async function passDeadlines(): Promise<void> {
  const before = log.warnings.length
  clock.advance(clock.nextTimerMs as number)
  await until(() => log.warnings.length === before + AT_ONCE, 'they are given up')
}

describe('SQLite computes generated columns to check them, and nobody has bounded how long that takes:', () => {
  test('a proof that never ends is ended, and the backup or restore goes on with what the checksums prove', async () => {
    const { file, size } = databaseWith(ENDLESS)
    const proof = threads.check({ kind: 'prove', file, member: 'cell.db' }, size)
    await until(() => clock.nextTimerMs !== undefined, 'it runs')
    clock.advance(clock.nextTimerMs as number)
    expect(await proof).toBeUndefined()
    expect(log.warnings).toEqual([{ file }])
  })

  test('a deep examination that never ends is refused', async () => {
    const { file, size } = databaseWith(ENDLESS)
    const examination = threads.check({ kind: 'examine', file, member: 'cell.db', deep: true }, size)
    examination.catch(() => {})
    await until(() => clock.nextTimerMs !== undefined, 'it runs')
    clock.advance(clock.nextTimerMs as number)
    await expect(examination).rejects.toMatchObject({ code: 'statement_timeout' })
  })

  test('others that compute something have their turn behind checks that never end', async () => {
    const files = [...Array.from({ length: 4 }, () => databaseWith(ENDLESS)), databaseWith(QUICK)]
    const proofs = files.map(({ file, size }) =>
      threads.check({ kind: 'prove', file, member: 'cell.db' }, size),
    )
    await until(() => clock.nextTimerMs !== undefined, 'they run')
    await passDeadlines()
    await passDeadlines()
    await Promise.all(proofs)
    expect(log.warnings.map(({ file }) => file).sort()).toEqual(
      files
        .slice(0, 4)
        .map(({ file }) => file)
        .sort(),
    )
  })

  test('a proof that takes all memory is given up, too', async () => {
    const { file, size } = databaseWith(ALL_MEMORY)
    expect(await threads.check({ kind: 'prove', file, member: 'cell.db' }, size)).toBeUndefined()
    expect(log.warnings).toHaveLength(1)
  })

  test('what can be computed is checked, and its damage found', async () => {
    const { file, size } = databaseWith(QUICK)
    const counted = await threads.check({ kind: 'examine', file, member: 'cell.db', deep: true }, size)
    expect(JSON.parse(counted as string)).toMatchObject({ rowCount: 1 })
    const bytes = fs.readFileSync(file)
    bytes.fill(0xff, bytes.length - 40)
    fs.writeFileSync(file, bytes)
    await expect(threads.check({ kind: 'prove', file, member: 'cell.db' }, size)).rejects.toMatchObject({
      code: 'backup_corrupt',
    })
    expect(log.warnings).toEqual([])
  })
})
