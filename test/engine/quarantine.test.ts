import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { CellPaths } from '../../src/base/files/store-paths.ts'
import { silentLog } from '../../src/base/log.ts'
import { Quarantine } from '../../src/engine/quarantine.ts'
import { CellError, type QuarantineReason } from '../../src/errors.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'
import { turnsUntil } from '../support/turns.ts'

const ID = 'a'

function sign(reason: QuarantineReason): CellError {
  return new CellError('cell_quarantined', 'disk I/O error', { reason })
}

/** A quarantine over a directory of its own; each check waits to be told how it ends. */
function openQuarantine(directory = tempDirectory(), clock = new FakeClock()) {
  const checks: { frames: number | undefined; isCurrent(): boolean; end(error?: unknown): void }[] = []
  const discarded: string[] = []
  const quarantine = new Quarantine({
    clock,
    log: silentLog,
    paths: () => new CellPaths(directory),
    discard: (id) => {
      discarded.push(id)
      return { frames: 7, isVolatile: false }
    },
    check: ({ frames, isCurrent }) =>
      new Promise((resolve, reject) => {
        const end = (error?: unknown) => (error === undefined ? resolve() : reject(error))
        checks.push({ frames, isCurrent, end })
      }),
  })
  const next = async (count: number) => {
    await turnsUntil(() => checks.length === count, `check ${count} begins`)
    return checks[count - 1] as (typeof checks)[number]
  }
  const settle = async () => {
    for (let i = 0; i < 10; i++) await new Promise(setImmediate)
  }
  return { quarantine, clock, checks, discarded, next, settle, directory }
}

describe('a cell that the disk has failed under', () => {
  test('is closed in the next turn, refused with the time to wait, checked after it, and free once it is whole', async () => {
    const { quarantine, clock, checks, discarded, next, settle } = openQuarantine()
    quarantine.begin(ID, sign('io_error'))
    expect(discarded).toEqual([])
    expect(thrownBy(() => quarantine.assertFree(ID))).toMatchObject({
      code: 'cell_quarantined',
      details: { reason: 'io_error', retryAfterMs: 1_000 },
    })
    expect(quarantine.state(ID)).toEqual({ reason: 'io_error', since: clock.now() })
    await settle()
    expect([discarded, checks]).toEqual([[ID], []])
    clock.advance(1_000)
    const check = await next(1)
    expect(check.frames).toBe(7)
    expect(codeOf(() => quarantine.assertFree(ID))).toBe('cell_quarantined')
    check.end()
    await settle()
    expect(() => quarantine.assertFree(ID)).not.toThrow()
    expect([quarantine.state(ID), clock.nextTimerMs]).toEqual([undefined, undefined])
  })

  test('waits longer after each check that the disk fails, up to five minutes', async () => {
    const { quarantine, clock, next, settle } = openQuarantine()
    quarantine.begin(ID, sign('io_error'))
    const waits: (number | undefined)[] = []
    for (let i = 1; i <= 11; i++) {
      waits.push(clock.nextTimerMs)
      clock.advance(clock.nextTimerMs ?? 0)
      ;(await next(i)).end(Object.assign(new Error('EIO'), { code: 'EIO' }))
      await settle()
    }
    const seconds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    expect(waits).toEqual(seconds.map((s) => s * 1_000))
    expect(quarantine.state(ID)?.reason).toBe('io_error')
  })

  test('is checked with its first use after the wait, where the timer was late', async () => {
    const { quarantine, clock, checks, next, settle } = openQuarantine()
    quarantine.begin(ID, sign('io_error'))
    clock.monotonic = () => 999
    expect(codeOf(() => quarantine.assertFree(ID))).toBe('cell_quarantined')
    await settle()
    expect(checks).toEqual([])
    clock.monotonic = () => 1_000
    for (let i = 0; i < 3; i++) expect(codeOf(() => quarantine.assertFree(ID))).toBe('cell_quarantined')
    ;(await next(1)).end()
    await settle()
    expect(checks).toHaveLength(1)
    expect(() => quarantine.assertFree(ID)).not.toThrow()
  })

  test('that fails again soon after it was found whole waits longer than before', async () => {
    const { quarantine, clock, next, settle } = openQuarantine()
    for (const [i, wait] of [1_000, 2_000, 4_000].entries()) {
      quarantine.begin(ID, sign('io_error'))
      expect(clock.nextTimerMs).toBe(wait)
      clock.advance(wait)
      ;(await next(i + 1)).end()
      await settle()
    }
    clock.advance(300_000)
    quarantine.begin(ID, sign('io_error'))
    expect(clock.nextTimerMs).toBe(1_000)
  })

  test('is given up as damaged once the check says so, and only a restore lifts that', async () => {
    const { quarantine, clock, next, settle } = openQuarantine()
    quarantine.begin(ID, sign('io_error'))
    clock.advance(1_000)
    ;(await next(1)).end(sign('damaged'))
    await settle()
    expect(quarantine.state(ID)?.reason).toBe('damaged')
    expect(thrownBy(() => quarantine.assertFree(ID)).message).toContain('Restore the cell from a backup')
    expect(clock.nextTimerMs).toBeUndefined()
    quarantine.end(ID)
    expect(() => quarantine.assertFree(ID)).not.toThrow()
  })

  test('is not freed by a check that began before its files were somebody else’s', async () => {
    const { quarantine, clock, next, settle } = openQuarantine()
    quarantine.begin(ID, sign('io_error'))
    clock.advance(1_000)
    const check = await next(1)
    expect(check.isCurrent()).toBe(true)
    quarantine.interrupt(ID)
    expect(check.isCurrent()).toBe(false)
    check.end()
    await settle()
    expect(codeOf(() => quarantine.assertFree(ID))).toBe('cell_quarantined')
    clock.advance(1_000)
    ;(await next(2)).end()
    await settle()
    expect(() => quarantine.assertFree(ID)).not.toThrow()
  })
})

test('a cell whose file is damaged is closed, and never checked again without a request', async () => {
  const { quarantine, clock, checks, discarded, settle } = openQuarantine()
  quarantine.begin(ID, sign('damaged'))
  await settle()
  clock.advance(1_000_000)
  for (let i = 0; i < 3; i++) {
    expect(codeOf(() => quarantine.assertFree(ID))).toBe('cell_quarantined')
    await settle()
  }
  expect([discarded, checks]).toEqual([[ID], []])
})

describe('the next process', () => {
  test.each(['io_error', 'damaged'] as const)(
    'checks a cell that was left in quarantine (%s)',
    async (reason) => {
      const first = openQuarantine()
      first.quarantine.begin(ID, sign(reason))
      await first.settle()
      first.quarantine.stop()
      const second = openQuarantine(first.directory, first.clock)
      expect(second.quarantine.state(ID)).toEqual({ reason, since: first.clock.now() })
      expect(codeOf(() => second.quarantine.assertFree(ID))).toBe('cell_quarantined')
      const check = await second.next(1)
      expect(check.frames).toBe(7)
      check.end()
      await second.settle()
      const third = openQuarantine(first.directory)
      expect(() => third.quarantine.assertFree(ID)).not.toThrow()
      expect(fs.readdirSync(first.directory)).toEqual([])
    },
  )

  test('is not noted when the disk refuses the note, and this process goes on', () => {
    const { quarantine } = openQuarantine(path.join(tempDirectory(), 'not there'))
    quarantine.begin(ID, sign('io_error'))
    expect(codeOf(() => quarantine.assertFree(ID))).toBe('cell_quarantined')
  })
})

test('after a stop no check begins', async () => {
  const { quarantine, clock, checks, settle } = openQuarantine()
  quarantine.begin(ID, sign('io_error'))
  quarantine.stop()
  clock.advance(10_000)
  expect(codeOf(() => quarantine.assertFree(ID))).toBe('cell_quarantined')
  await settle()
  expect(checks).toEqual([])
})
