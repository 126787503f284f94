import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { BackupProgress } from '../../src/backup/changes/backup-progress.ts'
import type { BackupSchedule } from '../../src/backup/schedule/schedule.ts'
import { CellError } from '../../src/errors.ts'
import { HOUR_MS, MINUTE_MS, PlannedBackups, pass } from '../support/backup/planned-backups.ts'
import { turnsUntil } from '../support/turns.ts'

describe('The schedule', () => {
  test('backs a changed cell up after each interval, counted from its last backup', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: 15 * MINUTE_MS })
    backups.change('a')
    schedule.changed('a')
    await pass(backups, HOUR_MS)
    expect(backups.times()).toEqual([15 * MINUTE_MS])
    // Long after its last backup: at once.
    backups.change('a')
    schedule.changed('a')
    await setImmediate()
    expect(backups.times()).toEqual([15 * MINUTE_MS, HOUR_MS])
  })

  test('makes a snapshot in place of the incremental where both are due', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: 15 * MINUTE_MS, snapshotEveryMs: HOUR_MS })
    for (let minute = 0; minute < 130; minute += 5) {
      backups.change('a')
      schedule.changed('a')
      await pass(backups, 5 * MINUTE_MS)
    }
    const kinds = backups.made.map(({ kind, at }) => `${at / MINUTE_MS} ${kind}`)
    expect(kinds.slice(0, 5)).toEqual([
      '15 incremental',
      '30 incremental',
      '45 incremental',
      '60 snapshot',
      '75 incremental',
    ])
    expect(backups.made.filter(({ kind }) => kind === 'snapshot').map(({ at }) => at / HOUR_MS)).toEqual([
      1, 2,
    ])
  })

  test('makes the snapshot of a cell that has only incrementals since, also if it did not change again', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: 15 * MINUTE_MS, snapshotEveryMs: 24 * HOUR_MS })
    backups.change('a')
    schedule.changed('a')
    await pass(backups, 49 * HOUR_MS, 5 * MINUTE_MS)
    expect(backups.made.map(({ kind }) => kind)).toEqual(['incremental', 'snapshot'])
  })

  test('does not let a cell wait behind the far-off due time of another', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: 15 * MINUTE_MS, snapshotEveryMs: 24 * HOUR_MS })
    backups.change('a')
    schedule.changed('a')
    await pass(backups, 30 * MINUTE_MS)
    // 'a' waits for its snapshot in a day.
    backups.change('b')
    schedule.changed('b')
    await pass(backups, 16 * MINUTE_MS)
    expect(backups.made).toMatchObject([{ cellId: 'a' }, { cellId: 'b', at: 45 * MINUTE_MS }])
  })

  test('looks at no cell that did not change', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: MINUTE_MS })
    schedule.reschedule()
    backups.scans = 0
    await pass(backups, 24 * HOUR_MS, HOUR_MS)
    expect([backups.scans, backups.looks, backups.made.length]).toEqual([0, 0, 0])
    expect(backups.clock.nextTimerMs).toBeUndefined()
  })

  test('spreads cells that changed together, by up to a tenth of the interval', async () => {
    const backups = new PlannedBackups()
    let chance = 0
    const schedule = backups.schedule({ incrementalEveryMs: 100 * MINUTE_MS }, () => (chance++ % 10) / 10)
    for (let i = 0; i < 10; i++) {
      backups.change(`cell ${i}`)
      schedule.changed(`cell ${i}`)
    }
    await pass(backups, 3 * HOUR_MS)
    const minutes = backups.times().map((at) => at / MINUTE_MS)
    for (const [i, at] of minutes.entries()) expect(Math.abs(at - 100 - i)).toBeLessThanOrEqual(1)
    expect(new Set(minutes).size).toBeGreaterThan(5)
  })

  test('runs no more at once than it may, and goes on with the next as one ends', async () => {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ incrementalEveryMs: MINUTE_MS, concurrency: 3 })
    for (let i = 0; i < 10; i++) {
      backups.change(`cell ${i}`)
      schedule.changed(`cell ${i}`)
    }
    let peak = 0
    for (let i = 0; i < 30; i++) {
      await pass(backups, MINUTE_MS)
      peak = Math.max(peak, backups.running.length)
      backups.running.shift()?.end()
    }
    expect(peak).toBe(3)
    expect(backups.made.map(({ cellId }) => cellId)).toEqual(
      Array.from({ length: 10 }, (_, i) => `cell ${i}`),
    )
  })

  test('costs no look at every row for each of ten thousand backups', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: MINUTE_MS })
    for (let i = 0; i < 10_000; i++) {
      backups.change(`cell ${i}`)
      schedule.changed(`cell ${i}`)
    }
    backups.clock.advance(MINUTE_MS)
    await turnsUntil(() => backups.made.length === 10_000, 'all are backed up')
    expect(backups.scans).toBe(0)
    expect(backups.looks).toBeLessThanOrEqual(30_001)
  })

  test('tries a failed one again after a while, and others meanwhile', async () => {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ incrementalEveryMs: 2_000, concurrency: 1 })
    for (const cell of ['a', 'b']) {
      backups.change(cell)
      schedule.changed(cell)
    }
    const end = async (error?: Error) => {
      backups.running.shift()?.end(error)
      for (let turn = 0; turn < 5; turn++) await setImmediate()
    }
    await pass(backups, 2_000, 1_000)
    await end(new CellError('object_store_unavailable', 'down'))
    await end()
    await pass(backups, 40_000, 1_000)
    await end()
    expect(backups.made).toEqual([
      { cellId: 'a', kind: 'incremental', at: 2_000 },
      { cellId: 'b', kind: 'incremental', at: 2_000 },
      { cellId: 'a', kind: 'incremental', at: 32_000 },
    ])
  })

  test('waits twice as long after each further failure, up to a quarter of an hour, and with jitter', async () => {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ incrementalEveryMs: 2_000 }, () => 0.5)
    backups.change('a')
    schedule.changed('a')
    for (let i = 0; i < 8; i++) {
      await pass(backups, 20 * MINUTE_MS, 1_000)
      backups.running.shift()?.end(new CellError('object_store_error', 'refused'))
      for (let turn = 0; turn < 5; turn++) await setImmediate()
      const before = backups.made.length
      const failedAt = backups.clock.now()
      while (backups.made.length === before) await pass(backups, 1_000, 1_000)
      const waited = (backups.made.at(-1)?.at ?? 0) - failedAt
      const longest = Math.min(30_000 * 2 ** i, 15 * MINUTE_MS)
      expect(waited).toBe(Math.ceil((i === 0 ? 30_000 : longest * 0.75) / 1_000) * 1_000)
    }
  })

  test('is not thrown off by a clock that steps back a year, before or after a failure', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: 15 * MINUTE_MS })
    backups.clock.step(366 * 24 * HOUR_MS)
    backups.change('a')
    schedule.changed('a')
    await pass(backups, 20 * MINUTE_MS)
    expect(backups.made).toHaveLength(1)
    backups.clock.step(-365 * 24 * HOUR_MS)
    backups.change('a')
    schedule.changed('a')
    await pass(backups, 20 * MINUTE_MS)
    expect(backups.made).toHaveLength(2)
    // From then on in its usual rhythm.
    backups.change('a')
    schedule.changed('a')
    await pass(backups, 10 * MINUTE_MS)
    expect(backups.made).toHaveLength(3)
    backups.change('a')
    schedule.changed('a')
    await pass(backups, 4 * MINUTE_MS)
    expect(backups.made).toHaveLength(3)
    await pass(backups, 2 * MINUTE_MS)
    expect(backups.made).toHaveLength(4)
  })

  test('notices within minutes that the clock has stepped forward', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ snapshotEveryMs: 24 * HOUR_MS })
    backups.change('a')
    schedule.changed('a')
    await pass(backups, HOUR_MS)
    backups.clock.step(23 * HOUR_MS)
    await pass(backups, 15 * MINUTE_MS)
    expect(backups.made).toHaveLength(1)
  })

  test('forgets a cell that is gone by the time it is due', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: MINUTE_MS })
    backups.change('a')
    schedule.changed('a')
    backups.cells.delete('a')
    await pass(backups, HOUR_MS)
    expect(backups.made).toEqual([])
    expect(backups.clock.nextTimerMs).toBeUndefined()
  })

  // Whoever makes and deletes cells would fill the log.
  test('says nothing of a cell that is deleted during its backup, and tries others again', async () => {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ historyWithinMs: MINUTE_MS })
    for (const cellId of ['deleted', 'kept']) {
      backups.change(cellId)
      schedule.changed(cellId)
    }
    await pass(backups, MINUTE_MS)
    backups.cells.delete('deleted')
    for (const { end } of backups.running) end(new CellError('cell_not_found', 'gone'))
    await pass(backups, 2 * MINUTE_MS)
    expect(backups.lines.map(({ cellId }) => cellId)).toEqual(['kept'])
    expect(backups.made.map(({ cellId }) => cellId)).toEqual(['deleted', 'kept', 'kept'])
  })

  test('takes a backup by hand into account', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ incrementalEveryMs: 10 * MINUTE_MS })
    backups.change('a')
    schedule.changed('a')
    await pass(backups, 5 * MINUTE_MS)
    await backups.make('a', 'incremental')
    backups.change('a')
    await pass(backups, 30 * MINUTE_MS)
    expect(backups.times()).toEqual([5 * MINUTE_MS, 15 * MINUTE_MS])
  })

  test('gives up what runs when it is stopped, and starts nothing more', async () => {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ incrementalEveryMs: MINUTE_MS, concurrency: 1 })
    for (const cell of ['a', 'b']) {
      backups.change(cell)
      schedule.changed(cell)
    }
    await pass(backups, 2 * MINUTE_MS)
    await schedule.stop()
    schedule.changed('b')
    schedule.reschedule()
    await pass(backups, HOUR_MS)
    expect(backups.made.map(({ cellId }) => cellId)).toEqual(['a'])
  })
})

test('with shipping, a changed cell without a history is backed up within the given time, and one with a history is not', () => {
  const backups = new PlannedBackups()
  const settings = { snapshotEveryMs: 24 * HOUR_MS, incrementalEveryMs: HOUR_MS, historyWithinMs: 2_500 }
  const schedule = backups.schedule(settings)
  const history = { isStored: true } as BackupProgress['history']
  backups.change('new')
  backups.change('shipped')
  backups.cells.set('shipped', { ...(backups.cells.get('shipped') as BackupProgress), history })
  for (const cellId of ['new', 'shipped']) schedule.changed(cellId)
  backups.clock.advance(2_500)
  expect(backups.made).toEqual([{ cellId: 'new', kind: 'incremental', at: 2_500 }])
})

describe('the due cells of one account', () => {
  test('hold up no other account, however many they are and however long their backups take', async () => {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ historyWithinMs: 0, concurrency: 4 })
    const change = (cellId: string) => {
      backups.change(cellId)
      schedule.changed(cellId)
    }
    const begun = () => backups.made.map(({ cellId }) => cellId)
    for (let cell = 1; cell <= 500; cell++) change(`${cell}/attacker`)
    expect(begun()).toEqual(['1/attacker', '2/attacker'])
    for (const cellId of ['1/b', '2/b', '1/c']) change(cellId)
    expect(begun().slice(2)).toEqual(['1/b', '2/b'])
    for (const { end } of backups.running.slice(2)) end()
    for (let turn = 0; turn < 5; turn++) await setImmediate()
    // The attacker has half of all.
    expect(begun().slice(4)).toEqual(['1/c'])
    backups.running[0]?.end()
    for (let turn = 0; turn < 5; turn++) await setImmediate()
    expect(begun().slice(5)).toEqual(['3/attacker'])
  })

  test('take their turns with those of other accounts, and not by the time since which they are due', async () => {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ historyWithinMs: MINUTE_MS, concurrency: 1 })
    for (const cellId of ['1/a', '2/a', '3/a', '1/b', '1/c']) {
      backups.change(cellId)
      schedule.changed(cellId)
      backups.clock.advance(1)
    }
    backups.clock.advance(MINUTE_MS)
    for (let cell = 0; cell < 4; cell++) {
      backups.running[cell]?.end()
      for (let turn = 0; turn < 5; turn++) await setImmediate()
    }
    expect(backups.made.map(({ cellId }) => cellId)).toEqual(['1/a', '2/a', '1/b', '1/c', '3/a'])
  })
})

describe('the base of a cell that has versions, as after a restore in place,', () => {
  const settings = { incrementalEveryMs: 0, historyWithinMs: MINUTE_MS }

  /** Its versions are stored, and nothing continues them. */
  function restore(backups: PlannedBackups, schedule: BackupSchedule, cellId: string): void {
    backups.change(cellId)
    const restored = backups.cells.get(cellId) as BackupProgress
    backups.cells.set(cellId, { ...restored, history: null, storedTo: backups.clock.now() })
    schedule.changed(cellId)
  }

  /** @returns the queue of a schedule that is full of cells which have a history */
  function fullQueue(concurrency: number, accounts: string[]) {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ ...settings, concurrency })
    for (let cell = 1; cell <= 20; cell++) {
      for (const account of accounts) {
        const cellId = `${cell}/${account}`
        backups.change(cellId)
        const shipped = backups.cells.get(cellId) as BackupProgress
        const history = { isStored: true } as BackupProgress['history']
        backups.cells.set(cellId, { ...shipped, history, storedTo: 0 })
        schedule.changed(cellId)
      }
    }
    const end = async (count: number) => {
      for (const { end } of backups.running.splice(0, count)) end()
      for (let turn = 0; turn < 5; turn++) await setImmediate()
    }
    return { backups, schedule, end, begun: () => backups.made.map(({ cellId }) => cellId) }
  }

  test('is due at once, and comes next however many cells are due', async () => {
    const { backups, schedule, end, begun } = fullQueue(1, ['a', 'b', 'c'])
    restore(backups, schedule, 'restored/a')
    await end(1)
    expect(begun()).toEqual(['1/a', 'restored/a'])
    expect(backups.made[1]?.at).toBe(backups.clock.now())
  })

  test('also if the cell was due before', async () => {
    const { backups, schedule, end, begun } = fullQueue(1, ['a'])
    restore(backups, schedule, '20/a')
    for (let ended = 0; ended < 21; ended++) await end(1)
    expect(begun().slice(0, 3)).toEqual(['1/a', '20/a', '2/a'])
    expect(begun()).toHaveLength(20)
  })

  test('waits as others do after it has failed', async () => {
    const { backups, schedule, begun } = fullQueue(1, ['a'])
    restore(backups, schedule, 'restored/a')
    for (let ended = 0; ended < 3; ended++) {
      backups.running.shift()?.end(new CellError('object_store_unavailable', 'down'))
      for (let turn = 0; turn < 5; turn++) await setImmediate()
    }
    expect(begun()).toEqual(['1/a', 'restored/a', '2/a', '3/a'])
  })

  test('leaves every other turn, and half of what runs, to the others of all accounts', async () => {
    const { backups, schedule, end, begun } = fullQueue(2, ['b', 'c'])
    await end(2)
    const before = begun().length
    for (let i = 0; i < 20; i++) restore(backups, schedule, `${i}/restores`)
    for (let ended = 0; ended < 12; ended++) await end(1)
    const accounts = begun()
      .slice(before)
      .map((cellId) => cellId.split('/')[1])
    expect(accounts.filter((account) => account === 'restores').length).toBe(6)
    expect(accounts.filter((account) => account === 'b').length).toBe(3)
  })

  test('is made as what somebody has asked for', async () => {
    const { backups, schedule, end } = fullQueue(1, ['a'])
    restore(backups, schedule, 'restored/a')
    await end(1)
    expect(backups.needs).toEqual(['background', 'requested'])
  })
})

describe('A version that a cell needs', () => {
  const STORED = { outcome: 'stored' }
  const outcomeOf = (needed: Promise<void>) => {
    const seen: { outcome?: unknown } = {}
    needed.then(
      () => Object.assign(seen, STORED),
      (error) => Object.assign(seen, { outcome: error.code }),
    )
    return seen
  }
  const turns = async () => {
    for (let turn = 0; turn < 5; turn++) await setImmediate()
  }

  test('is made at once, also where nothing is planned, and all who wait for it share it', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ concurrency: 1 })
    backups.quick = false
    backups.change('other')
    void schedule.needsBase('other', 'versions damaged')
    backups.change('a')
    const seen = ['restore refused', 'old log objects'].map((reason) =>
      outcomeOf(schedule.needsBase('a', reason as 'restore refused')),
    )
    backups.running.shift()?.end()
    await turns()
    expect(backups.made.map(({ cellId }) => cellId)).toEqual(['other', 'a'])
    expect(seen).toEqual([{}, {}])
    backups.running.shift()?.end()
    await turns()
    expect(seen).toEqual([STORED, STORED])
    await pass(backups, HOUR_MS)
    expect(backups.made).toHaveLength(2)
  })

  test('begins after it was asked for: one that runs then may lack what it is needed for', async () => {
    const backups = new PlannedBackups()
    backups.quick = false
    const schedule = backups.schedule({ historyWithinMs: 0 })
    backups.change('a')
    schedule.changed('a')
    const seen = outcomeOf(schedule.needsBase('a', 'history given up'))
    backups.running.shift()?.end()
    await turns()
    expect(seen).toEqual({})
    expect(backups.made).toHaveLength(2)
    backups.running.shift()?.end()
    await turns()
    expect(seen).toEqual(STORED)
  })

  test('is tried less and less often while it fails, which says why it is needed, and holds up no other; accounts take turns', async () => {
    const backups = new PlannedBackups()
    // The longest waits.
    const schedule = backups.schedule({ concurrency: 1 }, () => 1)
    backups.quick = false
    const seen = ['broken/a', '2/a', '3/a', '1/b'].map((cellId) => {
      backups.change(cellId)
      return outcomeOf(schedule.needsBase(cellId, 'history given up'))
    })
    let isMended = false
    const endAll = async () => {
      for (let next = backups.running.shift(); next !== undefined; next = backups.running.shift()) {
        const isBroken = next.cellId === 'broken/a' && !isMended
        next.end(isBroken ? new CellError('cell_quarantined', 'The disk failed.') : undefined)
        await turns()
      }
    }
    await endAll()
    expect(backups.made.map(({ cellId }) => cellId)).toEqual(['broken/a', '2/a', '1/b', '3/a'])
    expect(seen).toEqual([{}, STORED, STORED, STORED])
    expect(backups.lines).toMatchObject([{ cellId: 'broken/a', reason: 'history given up' }])
    for (let minute = 0; minute < 60; minute++) {
      await pass(backups, MINUTE_MS)
      await endAll()
    }
    const tries = backups.made.filter(({ cellId }) => cellId === 'broken/a').length
    expect([4, 5, 6, 7, 8]).toContain(tries)
    isMended = true
    // Whoever asks again need not wait.
    void schedule.needsBase('broken/a', 'old log objects')
    await endAll()
    expect(seen[0]).toEqual(STORED)
  })

  test('fails without a word once the cell is gone, and when the schedule stops', async () => {
    const backups = new PlannedBackups()
    const schedule = backups.schedule({ concurrency: 1 })
    backups.quick = false
    const seen = ['gone', 'waits'].map((cellId) => {
      backups.change(cellId)
      return outcomeOf(schedule.needsBase(cellId, 'history given up'))
    })
    backups.cells.delete('gone')
    backups.running.shift()?.end(new CellError('cell_not_found', 'gone'))
    await turns()
    expect(seen).toEqual([{ outcome: 'cell_not_found' }, {}])
    await schedule.stop()
    await turns()
    expect(seen[1]).toEqual({ outcome: 'store_closed' })
    expect(backups.lines).toEqual([])
    await expect(schedule.needsBase('waits', 'history given up')).rejects.toMatchObject({
      code: 'store_closed',
    })
  })
})
