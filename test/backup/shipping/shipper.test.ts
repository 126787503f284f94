import { describe, expect, test } from 'vitest'
import { logKey } from '../../../src/backup/versions/object-keys.ts'
import { CellError } from '../../../src/errors.ts'
import {
  FailingStore,
  GatedStore,
  LaggingStore,
  RecordingStore,
} from '../../support/backup/object-store-decorators.ts'
import { ShippingPlace } from '../../support/backup/shipping-node.ts'
import { rowsIn, storedLogs } from '../../support/backup/stored-logs.ts'
import { Random } from '../../support/random.ts'

const place = ShippingPlace.perTest()
const keys = async () => (await storedLogs(place.objects)).map(({ key }) => key)
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)
const isLog = (_: string, key: string) => key.startsWith('log/')

describe('Shipping', () => {
  test('puts one object per tick for all cells that have changed, and each continues the one before', async () => {
    const node = place.node()
    const cells = [node.newCell(), node.newCell(), node.newCell()]
    await node.start()
    await node.pass(0)
    for (let tick = 0; tick < 3; tick++) {
      cells[0]?.commit()
      cells[1]?.commit(20_000)
      if (tick === 1) cells[0]?.checkpoint()
      await node.pass(10_000)
    }
    const logs = await storedLogs(place.objects)
    expect(logs.map(({ key }) => key)).toEqual(upTo(4).map((number) => logKey({ epoch: 1, number })))
    expect(logs.map(({ manifest }) => manifest.cells.length)).toEqual([3, 2, 2, 2])
    expect(logs[0]?.manifest.previous).toBeNull()
    for (const cell of cells) expect(rowsIn(logs, cell)).toEqual(upTo(cell.rows))
    const { startedAt: _, ...state } = node.shipper.state
    expect(state).toMatchObject({
      lastObject: logKey({ epoch: 1, number: 4 }),
      objects: 4,
      waitingBytes: 0,
      failingSince: null,
    })
    expect(state.backedUpTo).toBe(node.fence.clock.now())
    expect(node.spoolFiles).toEqual([])
    await node.stop()
  })

  test('asks nothing of the object store while nothing has changed', async () => {
    const recording = new RecordingStore(place.objects)
    const node = place.node(recording)
    node.newCell()
    await node.start()
    await node.pass(10_000)
    recording.forget()
    await node.pass(1_000_000)
    expect(recording.calls).toEqual([])
    expect(node.cells.collects).toBeGreaterThan(100)
    expect(node.shipper.state.backedUpTo).toBe(node.fence.clock.now())
    await node.stop()
  })

  test('what all cells had committed is stored up to where a look has found it, once all of that look is stored', async () => {
    const failing = new FailingStore(place.objects)
    const node = place.node(failing)
    const { cells, shipper, fence } = node
    const cell = node.newCell()
    const all = () => shipper.state.allBackedUpTo
    cells.allAsOf = null
    await node.start()
    await node.pass(0)
    expect([shipper.state.backedUpTo, all()]).toEqual([fence.clock.now(), null])
    // Cells without a history have changed a second ago.
    const changedAt = fence.clock.now() - 1_000
    cells.allAsOf = changedAt
    cell.commit()
    failing.forGood = true
    failing.failFromHere(1, (call, key) => call === 'put' && key.startsWith('log/'))
    await node.pass(10_000)
    expect(all()).toBe(null)
    failing.failAt = 0
    await node.pass(60_000)
    expect(all()).toBe(changedAt)
    cells.allAsOf = 'as of now'
    await node.pass(10_000)
    const known = all()
    expect(known).toBe(shipper.state.backedUpTo)
    // A history has ended, and what is not in a version was changed before: all of it was shipped.
    cells.allAsOf = changedAt
    await node.pass(10_000)
    expect(all()).toBe(known)
    expect(shipper.state.backedUpTo).toBeGreaterThan(known as number)
    // The clock was ahead, and is put right.
    fence.clock.step(-3_600_000)
    cells.allAsOf = 'as of now'
    await node.pass(10_000)
    expect(all()).toBe(shipper.state.backedUpTo)
    await node.stop()
  })

  test('goes on at once if one object has no room for all', async () => {
    const node = place.node()
    const cells = upTo(5).map(() => node.newCell())
    node.cells.cellsMax = 2
    for (const cell of cells) cell.commit()
    await node.start()
    await node.pass(0)
    const logs = await storedLogs(place.objects)
    expect(logs.length).toBeGreaterThan(1)
    expect(logs.map(({ manifest }) => manifest.complete)).toEqual(logs.map((_, i) => i === logs.length - 1))
    for (const cell of cells) expect(rowsIn(logs, cell)).toEqual([1])
    expect(node.spoolFiles).toEqual([])
    await node.stop()
  })

  test('keeps its pace while there may be cells that nobody has found', async () => {
    const node = place.node()
    const cell = node.newCell()
    await node.start()
    await node.pass(0)
    const before = (await keys()).length
    node.cells.isSearching = true
    // Something is committed between each two looks.
    const { onCollect } = node.cells
    node.cells.onCollect = () => {
      onCollect()
      if (cell.rows < 20) cell.commit()
    }
    await node.pass(10_000)
    expect(await keys()).toHaveLength(before + 1)
    const flush = node.shipper.flush()
    await node.pass(500)
    expect(await keys()).toHaveLength(before + 1 + 5)
    node.cells.isSearching = false
    await node.fence.settled(flush)
    expect(rowsIn(await storedLogs(place.objects), cell)).toEqual(upTo(cell.rows))
    await node.stop()
  })

  test('the first object of an epoch names the last one of the epochs before', async () => {
    const first = place.node()
    const cell = first.newCell()
    await first.start()
    for (let i = 0; i < 20; i++) {
      cell.commit()
      await first.pass(10_000)
    }
    await first.fence.settled(first.shipper.stop(new AbortController().signal))
    await first.fence.stop()
    for (let i = 0; i < 3; i++) {
      const idle = place.node(place.objects, { directory: first.fence.directory })
      await idle.start()
      await idle.pass(20_000)
      await idle.stop()
    }
    const next = place.node(place.objects, { directory: first.fence.directory, cells: first.cells })
    cell.commit()
    await next.start()
    await next.pass(0)
    const logs = await storedLogs(place.objects)
    expect(logs.at(-1)?.key).toBe(logKey({ epoch: 5, number: 1 }))
    expect(logs.at(-1)?.manifest.previous?.key).toBe(logs.at(-2)?.key)
    expect(rowsIn(logs, cell)).toEqual(upTo(21))
    await next.stop()
  })

  test.each([2, 5])('… also if the listing lacks the last %d', async (count) => {
    const first = place.node()
    const cell = first.newCell()
    await first.start()
    for (let i = 0; i < 3; i++) {
      cell.commit()
      await first.pass(10_000)
    }
    await first.fence.settled(first.shipper.stop(new AbortController().signal))
    await first.fence.stop()
    const lagging = new LaggingStore(place.objects)
    const all = await keys()
    lagging.hide(all.slice(-count))
    const idle = place.node(lagging, { directory: first.fence.directory })
    await idle.start()
    await idle.stop()
    const next = place.node(lagging, { directory: first.fence.directory, cells: first.cells })
    cell.commit()
    await next.start()
    await next.pass(0)
    const logs = await storedLogs(place.objects)
    expect(logs.at(-1)?.manifest.previous?.key).toBe(all.at(-1))
    expect(rowsIn(logs, cell)).toEqual(upTo(4))
    await next.stop()
  })

  test('a new archiver of the same epoch goes on with its numbers', async () => {
    const node = place.node()
    const cell = node.newCell()
    await node.start()
    for (let i = 0; i < 3; i++) {
      cell.commit()
      await node.pass(10_000)
    }
    const again = place.node(place.objects, { cells: node.cells })
    again.fence.guard.hold(1)
    cell.commit()
    again.shipper.start()
    await again.pass(0)
    const logs = await storedLogs(place.objects)
    expect(logs.map(({ manifest }) => manifest.number)).toEqual(upTo(5))
    expect(rowsIn(logs, cell)).toEqual(upTo(4))
    await node.stop()
  })
})

describe('If the object store fails', () => {
  test.each([
    ['before it has stored the object', false],
    ['after it has stored the object', true],
  ])('%s, shipping backs off, and no number is missing or used twice', async (_, afterTheFact) => {
    const failing = new FailingStore(place.objects)
    const node = place.node(failing)
    const [cell, other] = [node.newCell(), node.newCell()]
    await node.start()
    await node.pass(0)
    failing.afterTheFact = afterTheFact
    failing.forGood = true
    failing.failFromHere(1, isLog)
    for (let i = 0; i < 20; i++) {
      cell.commit()
      if (i % 7 === 0) other.checkpoint()
      if (i % 7 === 3) other.commit()
      await node.pass(10_000)
    }
    // After 1, 2, 4 … 60 seconds, with up to two calls each.
    expect(failing.calls).toBeLessThan(20)
    failing.failAt = 0
    await node.pass(70_000)
    const logs = await storedLogs(place.objects)
    expect(logs.map(({ manifest }) => manifest.number)).toEqual(upTo(logs.length))
    expect(rowsIn(logs, cell)).toEqual(upTo(20))
    expect(rowsIn(logs, other)).toEqual(upTo(other.rows))
    expect(node.fence.log.warnings).toMatchObject([{ lagMs: 50_000 }])
    expect(node.fence.log.infos).toHaveLength(1)
    expect(node.spoolFiles).toEqual([])
    await node.stop()
  })

  test('at any call, nothing is lost and nothing is there twice', async () => {
    const random = new Random(11)
    const failing = new FailingStore(place.objects)
    const node = place.node(failing)
    const cells = [node.newCell(), node.newCell()]
    await node.start()
    for (let n = 0; n < 60; n++) {
      failing.afterTheFact = random.below(2) === 0
      failing.failFromHere(1 + random.below(4))
      for (const cell of cells) {
        if (random.below(3) > 0) cell.commit(random.below(20_000))
        if (random.below(5) === 0) cell.checkpoint()
      }
      await node.pass(random.below(20_000))
    }
    failing.failAt = 0
    await node.pass(120_000)
    const logs = await storedLogs(place.objects)
    expect(logs.map(({ manifest }) => manifest.number)).toEqual(upTo(logs.length))
    for (const cell of cells) expect(rowsIn(logs, cell)).toEqual(upTo(cell.rows))
    await node.stop()
  })

  test('a put of an archiver that was killed may come late: the next one takes the number after it', async () => {
    const gated = new GatedStore(place.objects)
    const node = place.node(gated)
    const cell = node.newCell()
    await node.start()
    await node.pass(0)
    cell.commit()
    gated.gates = (call, key) => call === 'put' && isLog(call, key)
    const lost = node.flush()
    lost.catch(() => {})
    await gated.arrival()
    const again = place.node(new GatedStore(place.objects), { cells: node.cells })
    again.fence.guard.hold(1)
    cell.commit()
    // Its look for the last object is over when the late put is stored.
    const second = again.flush()
    gated.open()
    await Promise.allSettled([lost, second])
    await again.flush()
    const logs = await storedLogs(place.objects)
    expect(logs.map(({ manifest }) => manifest.number)).toEqual(upTo(logs.length))
    expect(rowsIn(logs, cell)).toEqual([1, 2])
    await node.stop()
  })

  test('for so long that too much waits, the largest cells lose their histories, with a warning, and versions are asked for once the object store answers', async () => {
    const failing = new FailingStore(place.objects)
    const node = place.node(failing, { settings: { bytesMax: 1_000_000 } })
    const [large, small] = [node.newCell(), node.newCell()]
    await node.start()
    await node.pass(0)
    failing.forGood = true
    failing.failFromHere(1, isLog)
    small.commit(100_000)
    large.commit(2_000_000)
    await node.pass(10_000)
    expect(node.cells.dropped).toEqual([large.cellId])
    expect(node.fence.log.warnings).toMatchObject([{ cellId: large.cellId, bytesMax: 1_000_000 }])
    expect(node.cells.needed).toEqual([])
    failing.failAt = 0
    await node.pass(120_000)
    expect(node.cells.needed).toEqual([large.cellId])
    expect(rowsIn(await storedLogs(place.objects), small)).toEqual([1])
    await node.stop()
  })
})

describe('When too much waits to be shipped', () => {
  const KB = 1_000

  /** What an account with three cells commits, and its neighbour with a larger one. */
  async function committed(bytesMax: number) {
    const failing = new FailingStore(place.objects)
    const node = place.node(failing, { settings: { bytesMax } })
    const own = [node.newCell(), node.newCell(), node.newCell()]
    for (const cell of own) cell.accountId = 'filled it'
    const neighbour = node.newCell()
    neighbour.accountId = 'neighbour'
    await node.start()
    await node.pass(0)
    failing.forGood = true
    failing.failFromHere(1, isLog)
    for (const cell of own) cell.commit(300 * KB)
    neighbour.commit(500 * KB)
    await node.pass(10_000)
    return { failing, node, own: own.map(({ cellId }) => cellId), neighbour: neighbour.cellId }
  }

  test('the account with the most of it gives up histories, not the one with the largest cell', async () => {
    const { failing, node, own } = await committed(1_000 * KB)
    expect(node.cells.dropped).toHaveLength(2)
    expect(own).toEqual(expect.arrayContaining(node.cells.dropped))
    failing.failAt = 0
    await node.stop()
  })

  test('each cell that gave up its history is asked a version for once, in the same order', async () => {
    const { failing, node, neighbour } = await committed(100 * KB)
    // Always of the account of which most waits then.
    expect(node.cells.dropped.map((cellId) => cellId === neighbour)).toEqual([false, false, true, false])
    failing.failAt = 0
    await node.pass(120_000)
    expect(node.cells.needed).toEqual(node.cells.dropped)
    await node.stop()
  })
})

test('An object store that takes less than is committed bounds what waits too, once in a minute', async () => {
  const node = place.node(place.objects, { settings: { bytesMax: 1_000_000 } })
  const cells = [node.newCell(), node.newCell(), node.newCell()] as const
  await node.start()
  await node.pass(0)
  // The next object has room for one cell, as if the others had come while it was stored.
  node.cells.cellsMax = 1
  const others = cells.slice(1).map(({ cellId }) => cellId)
  const commit = () => cells.forEach((cell, i) => void cell.commit(2_000_000 - i * 100_000))
  commit()
  await node.pass(10_000)
  expect(node.cells.dropped).toEqual(others)
  expect(node.cells.needed).toEqual(others)
  expect(node.shipper.state).toMatchObject({ waitingBytes: 0, failingSince: null })
  commit()
  await node.pass(10_000)
  expect(node.cells.dropped).toEqual(others)
  await node.pass(60_000)
  commit()
  await node.pass(10_000)
  expect(node.cells.dropped).toEqual([...others, ...others])
  await node.stop()
})

describe('Of two nodes', () => {
  test("the loser's flush rejects, and it ships nothing more; its object stays: the winner's first one may name it (invariant 14)", async () => {
    const loser = place.node()
    const cell = loser.newCell()
    await loser.start()
    await loser.pass(0)
    const before = await keys()
    const winner = place.node(place.objects, { takesOver: true })
    await winner.start()
    cell.commit()
    await expect(loser.flush()).rejects.toMatchObject({ code: 'taken_over' })
    const [late, ...more] = (await keys()).slice(before.length)
    expect(more).toEqual([])
    await expect(loser.shipper.flush()).rejects.toMatchObject({ code: 'taken_over' })
    expect((await keys()).at(-1)).toBe(late)
    winner.newCell().commit()
    await winner.flush()
    const logs = await storedLogs(place.objects)
    expect(logs.at(-1)?.manifest.previous?.key).toBe(late)
    await loser.stop()
    await winner.stop()
  })

  test('a loser whose put was stored without an answer does not take it for its own success', async () => {
    const failing = new FailingStore(place.objects)
    const loser = place.node(failing)
    const cell = loser.newCell()
    await loser.start()
    await loser.pass(0)
    failing.afterTheFact = true
    failing.error = () => new CellError('object_store_error', 'The object store answered 500 (injected).')
    failing.failFromHere(1, (call, key) => call === 'put' && isLog(call, key))
    cell.commit()
    const flush = loser.shipper.flush()
    // Not as long as it backs off.
    await loser.pass(100)
    await expect(flush).rejects.toMatchObject({ code: 'object_store_error' })
    const winner = place.node(place.objects, { takesOver: true })
    await winner.start()
    await expect(loser.flush()).rejects.toMatchObject({ code: 'taken_over' })
    await loser.stop()
    await winner.stop()
  })
})
