import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Emitter } from '../../../src/base/async/emitter.ts'
import { Lease, leaseTimes } from '../../../src/cluster/membership/lease.ts'
import { Membership } from '../../../src/cluster/membership/membership.ts'
import { CellError } from '../../../src/errors.ts'
import { SteppedClock } from '../../../src/testing/stepped-clock.ts'
import { MemoryNodeTable } from '../../support/cluster/memory-node-table.ts'
import { rejectedBy } from '../../support/thrown.ts'

const NO_LOG = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

class CountingTable extends MemoryNodeTable {
  lists = 0

  override async list(): ReturnType<MemoryNodeTable['list']> {
    this.lists++
    return await super.list()
  }
}

/** The fence of a node, as the bucket shows it. */
class FakeGuard {
  readonly lost = new Emitter<[CellError]>()
  failure: CellError | undefined
  isAway = false
  isFenced = false

  async check(): Promise<void> {
    if (this.isAway) throw new CellError('object_store_unavailable', 'The bucket is away.')
    if (this.isFenced) this.lose(new CellError('taken_over', 'Another node has put a fence.'))
    if (this.failure !== undefined) throw this.failure
  }

  lose(failure: CellError): void {
    if (this.failure !== undefined) return
    this.failure = failure
    this.lost.emit(failure)
  }
}

function newNode(table: MemoryNodeTable, clock: SteppedClock, id = 'a', epoch = 1) {
  const guard = new FakeGuard()
  const stamps = {
    stampBound: 0,
    earlierStamps: 0,
    nextStampBound: (now: number) => now + 60_000,
    stampBoundAtStart: (now: number) => now,
  }
  const membership = new Membership({
    self: { id, address: `http://${id}`, prefix: `nodes/${id}/`, epoch, startedAt: clock.now() },
    lease: new Lease(clock, leaseTimes(6_000)),
    table,
    guard,
    times: leaseTimes(6_000),
    clock,
    log: NO_LOG,
    seenVersion: () => 7,
    busyCells: () => 3,
    stamps,
    backedUpTo: () => undefined,
    headSeen: () => {},
    lacksAddresses: () => isStrange.some((each) => each === id),
    nodesSeen: () => {},
  })
  return { membership, guard }
}

/** Nodes that do not know where another one is. */
const isStrange: string[] = []

/** Lets time pass, and what falls due in it answer. */
async function pass(clock: SteppedClock, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 100) {
    clock.advance(Math.min(left, 100))
    for (let turn = 0; turn < 5; turn++) await turnOfTheLoop()
  }
}

describe('of many nodes', () => {
  const ids = Array.from({ length: 20 }, (_, i) => `n${i + 10}`)

  /** They have joined, and have looked once since. */
  async function many() {
    const [table, clock] = [new CountingTable(), new SteppedClock()]
    const members = ids.map((id) => newNode(table, clock, id).membership)
    for (const each of members) await each.join()
    await pass(clock, 20_000)
    table.lists = 0
    return { table, clock, members }
  }

  test('sixteen look at all others with each beat, and the rest with each tenth', async () => {
    const { table, clock } = await many()
    await pass(clock, 60_000)
    expect(table.lists).toBe(16 * 30 + 4 * 3)
  })

  test('one that does not know where another one is looks at once', async () => {
    const { table, clock, members } = await many()
    isStrange.push('n29')
    await pass(clock, 20_000)
    isStrange.pop()
    expect(table.lists).toBe(17 * 10 + 3)
    expect(members.at(-1)?.nodes).toHaveLength(20)
  })

  test('the rest watches where the sixteen are silent, and all of these are noticed', async () => {
    const { table, clock, members } = await many()
    for (const each of members.slice(0, 16)) await each.leave(false)
    await pass(clock, 40_000)
    table.lists = 0
    await pass(clock, 20_000)
    expect(table.lists).toBe(4 * 10)
    expect(members.at(-1)?.watcher.silent(6_000)).toHaveLength(16)
  })
})

test('who had no answer of PostgreSQL for a while takes no other for silent: they could not beat either', async () => {
  const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
  const { membership } = newNode(table, clock, 'a')
  await membership.join()
  await table.join({ id: 'b', address: '', prefix: '', epoch: 1, stampBound: 0, startedAt: 0 })
  await pass(clock, 2_000)
  table.isAway = true
  await pass(clock, 60_000)
  table.isAway = false
  await pass(clock, 2_000)
  expect(membership.watcher.silent(5_000)).toEqual([])
  await pass(clock, 6_000)
  expect(membership.watcher.silent(5_000)).toHaveLength(1)
})

describe('a member', () => {
  test('beats three times within its time to live, with what it has seen', async () => {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const { membership } = newNode(table, clock)
    await membership.join()
    expect(table.rows.get('a')).toMatchObject({ counter: 1, seenVersion: 7, busyCells: 3, state: 'alive' })
    await pass(clock, 6_000)
    expect(table.rows.get('a')).toMatchObject({ counter: 4, stampBound: clock.now() + 60_000 })
  })

  test.each([
    ['PostgreSQL', (table: MemoryNodeTable) => Object.assign(table, { isAway: true })],
    ['the bucket', (_: MemoryNodeTable, guard: FakeGuard) => Object.assign(guard, { isAway: true })],
  ])('serves on while one of both vouches for it: without %s', async (_, take) => {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const { membership, guard } = newNode(table, clock)
    await membership.join()
    take(table, guard)
    await pass(clock, 60_000)
    expect(membership.lease.isValid()).toBe(true)
  })

  test('without both it answers nothing more once its leases have ended, and again once one is back', async () => {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const { membership, guard } = newNode(table, clock)
    await membership.join()
    table.isAway = true
    guard.isAway = true
    await pass(clock, 6_000)
    expect(membership.lease.isValid()).toBe(false)
    table.isAway = false
    await pass(clock, 2_000)
    expect(membership.lease.isValid()).toBe(true)
  })

  test('ends for good once it was declared dead', async () => {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const { membership, guard } = newNode(table, clock)
    await membership.join()
    expect(await table.declareDead({ id: 'a', epoch: 1, counter: 1, server: table.server })).toBe(true)
    await pass(clock, 2_000)
    expect(guard.failure?.code).toBe('taken_over')
    expect(membership.lease.isValid()).toBe(false)
  })

  test('ends for good once another node has put a fence, although PostgreSQL still takes its beats (C2)', async () => {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const { membership, guard } = newNode(table, clock)
    await membership.join()
    guard.isFenced = true
    await pass(clock, 1_000)
    expect(membership.lease.isValid()).toBe(false)
    const { counter } = table.rows.get('a') ?? {}
    await pass(clock, 6_000)
    expect(table.rows.get('a')?.counter).toBe(counter)
  })

  test('another server vouches for it only after a look at the fence', async () => {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const { membership, guard } = newNode(table, clock)
    await membership.join()
    guard.isAway = true
    table.server = 'server-2'
    await pass(clock, 8_000)
    expect(membership.lease.isValid()).toBe(false)
    guard.isAway = false
    await pass(clock, 1_000)
    expect(membership.lease.isValid()).toBe(true)
    guard.isAway = true
    await pass(clock, 6_000)
    expect(membership.lease.isValid()).toBe(true)
  })

  test('a new start of it goes on in its row; a dead one cannot come back', async () => {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const { membership } = newNode(table, clock)
    await membership.join()
    const again = newNode(table, clock, 'a', 2).membership
    await again.join()
    expect(table.rows.get('a')).toMatchObject({ epoch: 2, state: 'alive' })
    await table.declareDead({ id: 'a', epoch: 2, counter: 1, server: table.server })
    expect((await rejectedBy(newNode(table, clock, 'a', 3).membership.join())).code).toBe('taken_over')
  })

  test('its row goes when it leaves, and stays if it was alone', async () => {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const { membership } = newNode(table, clock)
    await membership.join()
    await membership.leave(false)
    expect(table.rows.has('a')).toBe(true)
    const again = newNode(table, clock, 'a', 2).membership
    await again.join()
    await again.leave(true)
    expect(table.rows.has('a')).toBe(false)
    expect(again.lease.isValid()).toBe(false)
  })
})

describe('a watcher', () => {
  /** `a` watches; `b` has joined and beats no more. */
  async function setUp() {
    const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
    const watching = newNode(table, clock).membership
    await watching.join()
    const watched = newNode(table, new SteppedClock(), 'b').membership
    await watched.join()
    await watching.beat()
    return {
      table,
      clock,
      watching,
      watched,
      silent: () => watching.watcher.silent(6_000).map((each) => each.watched.id),
    }
  }

  test('counts from the answer that first showed a beat', async () => {
    const { clock, watching, watched, silent } = await setUp()
    await pass(clock, 5_900)
    expect(silent()).toEqual([])
    await watched.beat()
    await watching.beat()
    await pass(clock, 5_900)
    expect(silent()).toEqual([])
    await pass(clock, 100)
    expect(silent()).toEqual(['b'])
  })

  test('begins anew with another server, also if that shows the same counter', async () => {
    const { table, clock, silent } = await setUp()
    await pass(clock, 4_000)
    table.server = 'server-2'
    await pass(clock, 4_000)
    expect(silent()).toEqual([])
  })

  test('a node that has beaten since can not be declared dead', async () => {
    const { table, clock, watching, watched, silent } = await setUp()
    await pass(clock, 6_000)
    expect(silent()).toEqual(['b'])
    await watched.beat()
    const [each] = watching.watcher.silent(6_000)
    expect(await table.declareDead(each?.watched as never)).toBe(false)
  })
})
