import { describe, expect, test } from 'vitest'
import { FailingStore, GatedStore } from '../../support/backup/object-store-decorators.ts'
import { ShippingPlace } from '../../support/backup/shipping-node.ts'
import { rowsIn, storedLogs } from '../../support/backup/stored-logs.ts'

const place = ShippingPlace.perTest()
const keys = async () => (await storedLogs(place.objects)).map(({ key }) => key)
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)
const isLog = (_: string, key: string) => key.startsWith('log/')

describe('A flush', () => {
  test('resolves once everything before it is stored, and all that wait share one object', async () => {
    const node = place.node()
    const cell = node.newCell()
    await node.start()
    await node.pass(0)
    cell.commit()
    const before = (await keys()).length
    await Promise.all(upTo(50).map(() => node.flush()))
    const logs = await storedLogs(place.objects)
    expect(logs).toHaveLength(before + 1)
    expect(rowsIn(logs, cell)).toEqual([1])
    await node.stop()
  })

  test('that comes while an object is stored waits for the next one', async () => {
    const gated = new GatedStore(place.objects)
    const node = place.node(gated)
    const cell = node.newCell()
    await node.start()
    await node.pass(0)
    gated.gates = (call, key) => call === 'put' && isLog(call, key)
    cell.commit()
    const early = node.flush()
    await gated.arrival()
    cell.commit()
    const late = node.flush()
    gated.open()
    await early
    await late
    expect(rowsIn(await storedLogs(place.objects), cell)).toEqual([1, 2])
    await node.stop()
  })

  test.each([0, 1, 2, 3, 4, 5, 6, 8])(
    'that comes %d turns after the one before it was told does not wait for the lag',
    async (turns) => {
      const node = place.node()
      const cell = node.newCell()
      await node.start()
      await node.pass(0)
      const flushTwice = async () => {
        cell.commit()
        await node.shipper.flush()
        for (let i = 0; i < turns; i++) await undefined
        cell.commit()
        await node.shipper.flush()
      }
      const began = node.fence.clock.monotonic()
      await node.fence.settled(flushTwice())
      expect(node.fence.clock.monotonic() - began).toBeLessThan(500)
      await node.stop()
    },
  )

  test('makes at most ten objects per second', async () => {
    const node = place.node()
    const cell = node.newCell()
    await node.start()
    await node.pass(0)
    const { clock } = node.fence
    const since = clock.monotonic()
    for (let i = 0; i < 30; i++) {
      cell.commit()
      await node.flush()
    }
    expect(clock.monotonic() - since).toBeGreaterThanOrEqual(30 * 100)
    expect(clock.monotonic() - since).toBeLessThan(31 * 100)
    await node.stop()
  })

  test('rejects with the error of the object store, and what it was for is shipped later', async () => {
    const failing = new FailingStore(place.objects)
    const node = place.node(failing)
    const cell = node.newCell()
    await node.start()
    await node.pass(0)
    cell.commit()
    failing.failFromHere(1, (call, key) => call === 'put' && isLog(call, key))
    await expect(node.flush()).rejects.toMatchObject({ code: 'object_store_unavailable' })
    expect(node.shipper.state.failingSince).not.toBeNull()
    await node.flush()
    expect(node.shipper.state.failingSince).toBeNull()
    expect(rowsIn(await storedLogs(place.objects), cell)).toEqual([1])
    await node.stop()
  })

  test('asks of no more cells than its callers whether they have a history, and counts them all', async () => {
    const node = place.node()
    await node.start()
    node.cells.withoutHistory = upTo(1_000).map((n) => `cell ${n}`)
    await node.pass(10_000)
    expect(node.cells.historyOf).toEqual([])
    expect(node.shipper.state.withoutHistory).toBe(1_000)
    const flushes = [
      node.shipper.flush(undefined, { cells: ['cell 7'] }),
      node.shipper.flush(undefined, { cells: ['cell 1001', 'cell 8'] }),
    ]
    for (const flush of flushes)
      expect(await node.fence.settled(flush)).toEqual({
        withoutHistory: ['cell 7', 'cell 8'],
        unreadable: [],
      })
    expect(node.cells.historyOf).toEqual(['cell 7', 'cell 1001', 'cell 8'])
    const all = await node.fence.settled(
      Promise.all([node.shipper.flush(), node.shipper.flush(undefined, { cells: [] })]),
    )
    expect(all[0]?.withoutHistory).toHaveLength(1_000)
    await node.stop()
  })

  test('says which cells have no history, and ends with its signal', async () => {
    const node = place.node()
    await node.start()
    await node.pass(0)
    node.cells.withoutHistory = ['a cell']
    expect(await node.flush()).toEqual({ withoutHistory: ['a cell'], unreadable: [] })
    await expect(node.shipper.flush(AbortSignal.abort('no longer'))).rejects.toBe('no longer')
    await node.stop()
    await expect(node.shipper.flush()).rejects.toMatchObject({ code: 'store_closed' })
  })
})

describe('A stop', () => {
  /** @param looks in so many, there may be cells that nobody has found yet */
  async function warningsOfStop(looks: number): Promise<object[]> {
    const node = place.node()
    await node.start()
    await node.pass(0)
    node.newCell()
    node.cells.isSearching = true
    let left = looks
    const { onCollect } = node.cells
    node.cells.onCollect = () => {
      onCollect()
      node.cells.isSearching = left-- > 0
    }
    await node.stop()
    return node.fence.log.warnings
  }

  test('looks ten more times for what could not be shipped', async () => {
    expect(await warningsOfStop(10)).toEqual([])
  })

  test('and leaves it to the next start then', async () => {
    expect(await warningsOfStop(11)).toMatchObject([{ err: { code: 'busy' } }])
  })
})
