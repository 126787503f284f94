import { describe, expect, test } from 'vitest'
import { backedUpTo } from '../../../src/backup/shipping/shipping-status.ts'
import { FailingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { until } from '../../support/until.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

const LAG_MS = 10_000
const HOUR_MS = 3_600_000
const place = ScratchPlace.perTest()

describe('What a cell is backed up to', () => {
  test('is null before anything is stored, then the cut of its version, and then what is shipped; an idle cell keeps up', async () => {
    const store = await place.create({ backups: { maxLagMs: LAG_MS } })
    const cell = createLedger(store)
    const committed = (note: string) => {
      place.clock.advance(1)
      addRow(cell, note)
      return place.clock.now()
    }
    committed('first')
    expect(store.backedUpTo(cell.id)).toBeNull()
    await place.advanceUntil(store.backups.snapshot(cell.id))
    const cut = store.backedUpTo(cell.id) as number
    const second = committed('second')
    expect(cut).toBeLessThanOrEqual(second)
    expect(store.backedUpTo(cell.id)).toBeLessThanOrEqual(second)
    await place.advanceUntil(store.backups.flush())
    const shipped = store.backedUpTo(cell.id) as number
    expect(shipped).toBeGreaterThan(second)
    expect(shipped).toBeLessThanOrEqual(place.clock.now())
    await place.advanceUntil(store.backups.flush())
    expect(store.backedUpTo(cell.id)).toBeGreaterThan(shipped)
    await place.close(store)
  })

  test('stays before the oldest commit that is not shipped, however long that takes, also after a restart', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing, backups: { maxLagMs: LAG_MS } })
    const [cell, other] = [createLedger(store), createLedger(store)]
    for (const { id } of [cell, other]) await place.advanceUntil(store.backups.snapshot(id))
    addRow(cell, 'shipped')
    const shipped = place.clock.now()
    await place.advanceUntil(store.backups.flush())
    failing.forGood = true
    failing.failFromHere(1, (call, key) => call === 'put' && key.startsWith('log/'))
    place.clock.advance(1)
    addRow(cell, 'waits')
    const waits = place.clock.now()
    for (let i = 0; i < 3; i++) {
      await place.advanceUntil(store.backups.flush().catch(() => {}))
      for (const { id } of [cell, other]) expect(store.backedUpTo(id)).toBeLessThanOrEqual(waits)
    }
    expect(store.backedUpTo(cell.id)).toBeGreaterThanOrEqual(shipped)
    await place.close(store)
    const again = await place.open({ backups: { maxLagMs: null } })
    expect(again.backedUpTo(cell.id)).toBeLessThanOrEqual(waits)
    await place.advanceUntil(again.backups.incremental(cell.id))
    expect(again.backedUpTo(cell.id)).toBeGreaterThan(waits)
    await place.close(again)
  })

  test('is not what was collected before its history could be shipped', () => {
    const row = { storedTo: 90, shippedAt: 90, shippedSince: 110 }
    expect(backedUpTo(row, 100, 120)).toBe(90)
    expect(backedUpTo(row, 111, 120)).toBe(111)
    expect(backedUpTo({ storedTo: 90, shippedAt: null, shippedSince: null }, 111, 120)).toBe(90)
    expect(backedUpTo({ storedTo: null, shippedAt: null, shippedSince: null }, 111, 120)).toBeNull()
  })

  test('is never in the future, where the line of time of a cell may be, and not known if all that is known is there', () => {
    const [now, ahead] = [20_000, 50_000]
    expect(backedUpTo({ storedTo: 90, shippedAt: ahead, shippedSince: 10 }, 100, now)).toBe(100)
    expect(backedUpTo({ storedTo: ahead, shippedAt: ahead, shippedSince: ahead }, null, now)).toBeNull()
    expect(backedUpTo({ storedTo: ahead, shippedAt: null, shippedSince: null }, ahead, now)).toBeNull()
    // Each cut of a version puts the line of time a millisecond ahead of what was committed.
    expect(backedUpTo({ storedTo: now + 2, shippedAt: 90, shippedSince: 10 }, 100, now)).toBe(now)
  })

  test('and the lag do not hide an outage that begins as a clock that was hours ahead is put right', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing, backups: { maxLagMs: LAG_MS } })
    const cell = createLedger(store)
    place.clock.step(6 * HOUR_MS)
    addRow(cell, 'ahead')
    await place.advanceUntil(store.backups.snapshot(cell.id))
    addRow(cell, 'ahead too')
    await place.advanceUntil(store.backups.flush())
    place.clock.step(-6 * HOUR_MS)
    failing.forGood = true
    failing.failFromHere(1)
    addRow(cell, 'in the outage')
    await place.advanceUntil(store.backups.flush().catch(() => {}))
    const since = place.clock.now()
    place.clock.advance(HOUR_MS)
    expect(store.backedUpTo(cell.id)).toBeNull()
    const shipping = store.metrics().backups?.shipping
    expect(shipping?.backedUpTo).toBeNull()
    expect(shipping?.lagMs).toBeGreaterThanOrEqual(place.clock.now() - since)
    failing.failAt = 0
    // A tick that has failed already may end the first one.
    await place.advanceUntil(store.backups.flush().catch(() => {}))
    await place.advanceUntil(store.backups.flush())
    expect(store.metrics().backups?.shipping).toMatchObject({ failingSince: null, lagMs: 0 })
    await place.close(store)
  })

  test('is known to a node whose workers have the cells', async () => {
    const { service, store } = await openWorkerStore({
      store: { backups: { maxLagMs: 1_000 } },
      service: { workers: 2 },
    })
    const { id } = store.createCell()
    await service.execute(id, { op: 'kv.put', key: 'a', value: '1' })
    expect(store.backedUpTo(id)).toBeNull()
    await service.backups.snapshot(id)
    expect(store.backedUpTo(id)).toBeLessThanOrEqual(Date.now())
    await service.execute(id, { op: 'kv.put', key: 'b', value: '2' })
    const committed = Date.now()
    await until(async () => (store.backedUpTo(id) ?? 0) > committed, 'the commit is shipped')
  })
})
