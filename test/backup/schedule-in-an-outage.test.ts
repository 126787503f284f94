import { describe, expect, test } from 'vitest'
import { CellError } from '../../src/errors.ts'
import { HOUR_MS, MINUTE_MS, PlannedBackups, pass } from '../support/backup/planned-backups.ts'

describe('The schedule, while the object store does not answer,', () => {
  const FAILED = 'a scheduled backup failed; trying again later'
  const GO_ON = 'scheduled backups fail: the object store does not answer; trying again'
  const MADE_UP = 'the scheduled backups that failed while the object store did not answer are stored'

  /** Forty cells whose backups fail from now on. */
  function failing() {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: MINUTE_MS, concurrency: 10 })
    const cells = Array.from({ length: 40 }, (_, i) => `cell ${i}`)
    for (const cellId of cells) {
      backups.change(cellId)
      schedule.changed(cellId)
    }
    backups.failure = new CellError('object_store_unavailable', 'down')
    const said = () => backups.lines.splice(0).map(({ level, message, cellId, ...rest }) => [message, rest])
    return { backups, schedule, said }
  }

  test('has a line for the first failure, some with a count, and one once all is stored, and none for each cell', async () => {
    const { backups, said } = failing()
    await pass(backups, 90_000, 30_000)
    const err = backups.failure
    expect(said()).toEqual([[FAILED, { kind: 'incremental', err, retryMs: 30_000 }]])
    await pass(backups, HOUR_MS)
    const lines = said()
    expect(lines.map(([message]) => message)).toEqual(Array(lines.length).fill(GO_ON))
    // At intervals that double.
    expect(lines.length).toBeGreaterThan(3)
    expect(lines.length).toBeLessThan(8)
    expect(lines[0]?.[1]).toMatchObject({ err, cells: 40, failures: expect.any(Number) })
    backups.failure = undefined
    await pass(backups, 20 * MINUTE_MS)
    const tried = backups.made.length
    expect(said()).toEqual([[MADE_UP, { failures: tried - 40, downMs: expect.any(Number) }]])
  })

  test('hides no failure that has another reason', async () => {
    const { backups, said } = failing()
    await pass(backups, 2 * MINUTE_MS)
    said()
    backups.failure = new CellError('disk_full', 'full')
    await pass(backups, 2 * MINUTE_MS)
    expect(said().filter(([message]) => message === FAILED).length).toBeGreaterThanOrEqual(40)
  })

  test('forgets cells that are deleted', async () => {
    const { backups, said } = failing()
    await pass(backups, 2 * MINUTE_MS)
    for (const cellId of [...backups.cells.keys()].slice(1)) backups.cells.delete(cellId)
    backups.failure = undefined
    await pass(backups, 20 * MINUTE_MS)
    expect(said().at(-1)?.[0]).toBe(MADE_UP)
  })

  test('forgets cells that somebody else has backed up, also if no snapshot is planned that they lack', async () => {
    const { backups, said } = failing()
    await pass(backups, 2 * MINUTE_MS)
    backups.failure = undefined
    for (const cellId of backups.cells.keys()) await backups.make(cellId, 'incremental')
    await pass(backups, 20 * MINUTE_MS)
    expect(backups.find('cell 0')).toMatchObject({ dirty: false, dirtySinceSnapshot: true })
    expect(said().at(-1)?.[0]).toBe(MADE_UP)
  })
})
