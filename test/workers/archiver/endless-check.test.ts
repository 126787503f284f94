import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, test } from 'vitest'
import { RestoreThreads } from '../../../src/backup/restore/threads/restore-threads.ts'
import { CheckProcesses } from '../../../src/workers/archiver/check-processes.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { KeptLog } from '../../support/kept-log.ts'
import { perTest } from '../../support/per-test.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { until } from '../../support/until.ts'

/** Hours for each row, on a database of two pages. */
const ENDLESS = "instr(hex(zeroblob(20000000 + (n IS NULL))), hex(zeroblob(10000000)) || '1')"
const ALL_MEMORY = 'hex(zeroblob(400000000 + (n IS NULL)))'
const QUICK = 'n + 1'

/** For the cell of an account. */
const whose = { account: 'a', signal: undefined }

const clock = perTest(() => new FakeClock())
let log: KeptLog
let threads: RestoreThreads
beforeEach(() => {
  log = new KeptLog()
  threads = new RestoreThreads(clock, 1, new CheckProcesses(clock, log))
})

function databaseWith(expression: string): { file: string; size: number } {
  return databaseOf(
    `CREATE TABLE t (n); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN g TEXT AS (${expression})`,
  )
}

function databaseOf(schema: string): { file: string; size: number } {
  const file = path.join(tempDirectory('cellstore-endless-check'), 'cell.db')
  const connection = new Database(file)
  connection.exec(schema)
  connection.close()
  return { file, size: fs.statSync(file).size }
}

describe('SQLite computes generated columns to check them, and nobody has bounded how long that takes:', () => {
  test('a proof that never ends is ended, and the backup or restore goes on with what the checksums prove', async () => {
    const { file, size } = databaseWith(ENDLESS)
    const proof = threads.check({ kind: 'prove', file, member: 'cell.db' }, size, whose)
    await until(() => clock.nextTimerMs !== undefined, 'it runs')
    clock.advance(clock.nextTimerMs as number)
    expect(await proof).toBeUndefined()
    expect(log.warnings).toEqual([{ file }])
  })

  test('a deep examination that never ends is refused', async () => {
    const { file, size } = databaseWith(ENDLESS)
    const examination = threads.check({ kind: 'examine', file, member: 'cell.db', deep: true }, size, whose)
    examination.catch(() => {})
    await until(() => clock.nextTimerMs !== undefined, 'it runs')
    clock.advance(clock.nextTimerMs as number)
    await expect(examination).rejects.toMatchObject({ code: 'statement_timeout' })
  })

  test('so is that of a search index whose content is a view without an end', async () => {
    const { file, size } = databaseOf(
      `CREATE VIEW v AS WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i AS rowid, 'a' AS x FROM r;
       CREATE VIRTUAL TABLE f USING fts4(content="v", x)`,
    )
    const proof = threads.check({ kind: 'prove', file, member: 'cell.db' }, size, whose)
    await until(() => clock.nextTimerMs !== undefined, 'it runs')
    clock.advance(clock.nextTimerMs as number)
    expect(await proof).toBeUndefined()
    expect(log.warnings).toEqual([{ file }])
  })

  test('so is that of a table so wide that each of its rows takes long, however few bytes it has', async () => {
    const wide = Array.from({ length: 65 }, (_, i) => `c${i} INT NOT NULL DEFAULT 1`).join(', ')
    const { file, size } = databaseOf(`CREATE TABLE t (${wide}); INSERT INTO t DEFAULT VALUES`)
    const check = { file, member: 'cell.db' }
    for (const task of [
      { kind: 'prove', ...check } as const,
      { kind: 'examine', deep: true, ...check } as const,
    ]) {
      const checked = threads.check(task, size, whose).catch((error: { code: string }) => error.code)
      expect(clock.nextTimerMs).toBeUndefined()
      await until(() => clock.nextTimerMs !== undefined, 'it runs in a process of its own')
      clock.advance(clock.nextTimerMs as number)
      expect(await checked).toBe(task.kind === 'prove' ? undefined : 'statement_timeout')
    }
    expect(log.warnings).toEqual([{ file }])
  })

  test('checks of one account that never end hold up no other account, and end with their callers', async () => {
    const abort = new AbortController()
    const prove = ({ file, size }: ReturnType<typeof databaseWith>, account: string, signal?: AbortSignal) =>
      threads.check({ kind: 'prove', file, member: 'cell.db' }, size, { account, signal })
    const endless = Array.from({ length: 4 }, () => prove(databaseWith(ENDLESS), 'a', abort.signal))
    const refused = Promise.allSettled(endless)
    await until(() => clock.nextTimerMs !== undefined, 'one runs')
    await prove(databaseWith(QUICK), 'b')
    abort.abort(new Error('enough'))
    expect((await refused).map((each) => each.status === 'rejected' && each.reason.message)).toEqual(
      Array(4).fill('enough'),
    )
    await prove(databaseWith(QUICK), 'a')
    expect(clock.nextTimerMs).toBeUndefined()
    expect(log.warnings).toEqual([])
  })

  test('is not tried again for the cell’s next bases, for a day; other proofs of the cell are', async () => {
    const { file, size } = databaseWith(ENDLESS)
    const prove = (base?: string) =>
      threads.check({ kind: 'prove', file, member: 'cell.db' }, size, { ...whose, base })
    const giveUp = async (proof: Promise<unknown>) => {
      await until(() => clock.nextTimerMs !== undefined, 'it runs')
      clock.advance(clock.nextTimerMs as number)
      expect(await proof).toBeUndefined()
    }
    await giveUp(prove('cell'))
    expect(await prove('cell')).toBeUndefined()
    expect(log.infos).toEqual([{ cellId: 'cell' }])
    await giveUp(prove('another cell'))
    await giveUp(prove())
    expect(log.warnings).toHaveLength(3)
    clock.advance(24 * 3_600_000)
    await giveUp(prove('cell'))
    expect(log.warnings).toHaveLength(4)
  })

  test('nor for its drills, until a check of the cell has ended', async () => {
    const proving = (
      { file, size }: ReturnType<typeof databaseWith>,
      of: { base?: string; drillOf?: string },
    ) => threads.check({ kind: 'prove', file, member: 'cell.db' }, size, { ...whose, ...of })
    const endless = databaseWith(ENDLESS)
    const first = proving(endless, { drillOf: 'cell' })
    await until(() => clock.nextTimerMs !== undefined, 'it runs')
    clock.advance(clock.nextTimerMs as number)
    expect(await first).toBeUndefined()
    clock.advance(7 * 24 * 3_600_000)
    expect(await proving(endless, { drillOf: 'cell' })).toBeUndefined()
    expect([log.warnings, log.infos]).toEqual([[{ file: endless.file }], [{ cellId: 'cell' }]])
    // The cell's owner has mended its schema.
    expect(await proving(databaseWith(QUICK), { base: 'cell' })).toBe('sound')
    const again = proving(endless, { drillOf: 'cell' })
    await until(() => clock.nextTimerMs !== undefined, 'it runs again')
    clock.advance(clock.nextTimerMs as number)
    await again
    expect(log.warnings).toHaveLength(2)
  })

  test('a proof that takes all memory is given up, too', async () => {
    const { file, size } = databaseWith(ALL_MEMORY)
    expect(await threads.check({ kind: 'prove', file, member: 'cell.db' }, size, whose)).toBeUndefined()
    expect(log.warnings).toHaveLength(1)
  })

  test('what can be computed is checked, and its damage found', async () => {
    const { file, size } = databaseWith(QUICK)
    const counted = await threads.check({ kind: 'examine', file, member: 'cell.db', deep: true }, size, whose)
    expect(JSON.parse(counted as string)).toMatchObject({ rowCount: 1 })
    const bytes = fs.readFileSync(file)
    bytes.fill(0xff, bytes.length - 40)
    fs.writeFileSync(file, bytes)
    await expect(
      threads.check({ kind: 'prove', file, member: 'cell.db' }, size, whose),
    ).rejects.toMatchObject({
      code: 'backup_corrupt',
    })
    expect(log.warnings).toEqual([])
  })
})
