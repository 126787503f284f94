import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import type { ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import { systemClock } from '../../../src/base/clock.ts'
import {
  type Assignment,
  firstAssignment,
  RANGES,
  type RangeSpan,
  rangeOf,
} from '../../../src/catalog/assignment/assignment.ts'
import { ClusterOwnership } from '../../../src/cluster/assignment/cluster-ownership.ts'
import { Mover } from '../../../src/cluster/assignment/mover.ts'
import { ownersOf } from '../../../src/cluster/assignment/range-map.ts'
import { CellError } from '../../../src/errors.ts'
import type { ReleaseOptions } from '../../../src/store/cell-host.ts'
import { AssignmentLog } from '../../../src/store/start/assignment-log.ts'
import { PassingStore } from '../../support/backup/object-store-decorators.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

const NO_LOG = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const LAST = { epoch: 2, number: 7 }

let store: ObjectStore
let root: string
beforeEach(() => {
  root = tempDirectory()
  store = new FileObjectStore({ root, clock: systemClock })
})
afterEach(async () => await store.close())

/** A node as its mover sees it; what the mover asks of its cells is noted. */
async function newNode(id: string, log = new AssignmentLog(store, systemClock)) {
  const calls: string[] = []
  const count = (spans: readonly RangeSpan[]) =>
    `${spans.reduce((sum, { lo, hi }) => sum + hi - lo + 1, 0)} from ${spans[0]?.lo}`
  const ownership = new ClusterOwnership({
    nodeId: id,
    prefix: `nodes/${id}/`,
    lease: { isValid: () => true },
    addressOf: (node) => `http://${node}`,
    random: () => 0.5,
  })
  const host = {
    release: async (
      ranges: readonly RangeSpan[],
      { beforeStop }: ReleaseOptions = {},
    ): Promise<{ lastLog: typeof LAST | null; stampBound: number }> => {
      await beforeStop?.()
      calls.push(`release ${count(ranges)}`)
      return { lastLog: LAST, stampBound: 1_000 }
    },
    resume: (ranges: readonly RangeSpan[]) => void calls.push(`resume ${count(ranges)}`),
    forget: async (ranges: readonly RangeSpan[]) => void calls.push(`forget ${count(ranges)}`),
    prepare: async () => {},
    acquired: async (ranges: readonly RangeSpan[]) => void calls.push(`acquired ${count(ranges)}`),
  }
  const parts = {
    self: id,
    log,
    ownership,
    host,
    prepare: async (to: string, ranges: readonly number[]) =>
      void calls.push(`${to} prepares ${ranges.length}`),
    publish: async ({ n }: Assignment) => void calls.push(`publish ${n}`),
    beat: async () => {
      ownership.stampBound = ownership.nextStampBound(0)
    },
    clock: systemClock,
    logger: NO_LOG,
  }
  return { calls, ownership, host, mover: new Mover(parts), parts }
}

/** The answer of its first PUT is lost. */
class LossyStore extends PassingStore {
  #isLost = false

  override async put(...args: Parameters<ObjectStore['put']>): Promise<void> {
    await super.put(...args)
    if (this.#isLost) return
    this.#isLost = true
    throw new CellError('object_store_unavailable', 'No answer came.')
  }
}

const first = () => firstAssignment('a', '')
const B = { id: 'b', prefix: 'nodes/b/' }

describe('a planned move', () => {
  test('the ranges are released, assigned in the bucket, then in the catalog, and only then forgotten (C5)', async () => {
    const log = new AssignmentLog(store, systemClock)
    expect(await log.put(first())).toBe(true)
    const { calls, ownership, mover } = await newNode('a')
    mover.learn((await log.newest()) as Assignment)
    expect(await mover.move([0, 1, 2], B)).toBe(3)
    expect(calls).toEqual([
      'acquired 4096 from 0',
      'b prepares 3',
      'release 3 from 0',
      'forget 3 from 0',
      'publish 2',
    ])
    const newest = await log.newest()
    expect(newest?.ranges[0]).toEqual({
      lo: 0,
      hi: 2,
      tenure: 2,
      node: 'b',
      since: 2,
      before: [{ tenure: 1, node: 'a', prefix: '', lastLog: LAST, stampBound: 1_000 }],
    })
    expect(newest?.ranges[1]).toMatchObject({ lo: 3, hi: 4_095, tenure: 1, node: 'a', before: [] })
    expect(newest?.prefixes).toEqual({ a: '', b: 'nodes/b/' })
    expect(ownership.ranges).toHaveLength(RANGES - 3)
    expect(ownership.ownerOf('00100000-0000-4000-8000-000000000000')).toEqual({
      nodeId: 'b',
      address: 'http://b',
    })
  })

  test('the cells are served until the node that gets them has prepared them; then nobody has them until they are assigned', async () => {
    const { ownership, host, mover } = await newNode('a')
    const log = new AssignmentLog(store, systemClock)
    await log.put(first())
    mover.learn((await log.newest()) as Assignment)
    await turnOfTheLoop()
    const seen: unknown[] = []
    const look = () =>
      seen.push(ownership.isHere('000a'), ownership.ownerOf('000a'), ownership.isHere('001a'))
    const { release } = host
    host.release = async (ranges, options) => {
      look()
      const end = await release(ranges, options)
      look()
      return end
    }
    await mover.move([0], B)
    expect(seen).toEqual([true, 'here', true, false, 'moving', true])
  })

  test('ranges that have only just come can leave at once: a beat says before the release up to when their versions may be stamped', async () => {
    const log = new AssignmentLog(store, systemClock)
    await log.put(first())
    const a = await newNode('a')
    a.mover.learn((await log.newest()) as Assignment)
    await a.mover.move([0], B)
    const b = await newNode('b')
    b.mover.learn((await log.newest()) as Assignment)
    await turnOfTheLoop()
    b.ownership.stampBound = 0
    const seen: number[] = []
    const { release } = b.host
    b.host.release = async (ranges, options) => {
      seen.push(b.ownership.stampBound)
      return await release(ranges, options)
    }
    expect(await b.mover.move([0], { id: 'a', prefix: '' })).toBe(1)
    expect(seen[0]).toBeGreaterThan(1_000)
  })

  test('a release that fails leaves all as it was', async () => {
    const { calls, ownership, host, mover } = await newNode('a')
    const log = new AssignmentLog(store, systemClock)
    await log.put(first())
    mover.learn((await log.newest()) as Assignment)
    await turnOfTheLoop()
    host.release = async () => {
      throw new CellError('object_store_unavailable', 'The bucket is away.')
    }
    expect((await rejectedBy(mover.move([5], B))).code).toBe('object_store_unavailable')
    expect(calls.at(-1)).toBe('resume 1 from 5')
    expect(ownership.isHere('005')).toBe(true)
    expect((await log.newest())?.n).toBe(1)
  })

  test('two nodes that move at once both succeed: the later one works from what the earlier one has put', async () => {
    const log = new AssignmentLog(store, systemClock)
    await log.put(first())
    const a = await newNode('a')
    const b = await newNode('b')
    a.mover.learn((await log.newest()) as Assignment)
    await a.mover.move([10, 11, 12], B)
    b.mover.learn((await log.newest()) as Assignment)
    await Promise.all([a.mover.move([20], B), b.mover.move([10], { id: 'c', prefix: 'nodes/c/' })])
    const newest = (await log.newest()) as Assignment
    expect(newest.n).toBe(4)
    expect([10, 11, 20, 21].map((range) => ownersOf(newest)[range])).toEqual(['c', 'b', 'b', 'a'])
  })

  test('a PUT whose answer was lost is no failure: the ranges are never served here again', async () => {
    const log = new AssignmentLog(store, systemClock)
    await log.put(first())
    const lossy = new LossyStore(store)
    const { calls, ownership, mover } = await newNode('a', new AssignmentLog(lossy, systemClock))
    mover.learn((await log.newest()) as Assignment)
    expect(await mover.move([3], B)).toBe(1)
    expect(calls).not.toContain('resume 1 from 3')
    expect(ownership.isHere('003')).toBe(false)
    expect((await log.newest())?.n).toBe(2)
  })
})

describe('what a lost node had', () => {
  test('goes to others, and ends where the node ended', async () => {
    const log = new AssignmentLog(store, systemClock)
    await log.put(first())
    const { calls, mover } = await newNode('b')
    mover.learn((await log.newest()) as Assignment)
    const share = (ranges: readonly number[]) =>
      new Map([
        [B, ranges.slice(0, 4_000)],
        [{ id: 'c', prefix: 'nodes/c/' }, ranges.slice(4_000)],
      ])
    await mover.takeOver({ id: 'a', prefix: '' }, { lastLog: null, stampBound: 5 }, share)
    expect(calls).toEqual(['acquired 4000 from 0', 'publish 2'])
    const newest = (await log.newest()) as Assignment
    expect(newest.ranges).toHaveLength(2)
    expect(newest.ranges[1]).toMatchObject({
      node: 'c',
      before: [{ node: 'a', lastLog: null, stampBound: 5 }],
    })
    // A second taker finds nothing left to do, and makes sure that the catalog has it.
    await mover.takeOver({ id: 'a', prefix: '' }, { lastLog: null, stampBound: 9 }, share)
    expect((await log.newest())?.n).toBe(2)
    expect(calls.at(-1)).toBe('publish 2')
  })

  test('waits for no PostgreSQL, and no move that does holds it up: one that was put back takes no change before the lost node’s row is gone', async () => {
    const log = new AssignmentLog(store, systemClock)
    await log.put(firstAssignment('b', 'nodes/b/'))
    const { ownership, mover, parts } = await newNode('b')
    mover.learn((await log.newest()) as Assignment)
    await turnOfTheLoop()
    const isPut = Promise.withResolvers<void>()
    parts.publish = () => {
      isPut.resolve()
      return new Promise(() => {})
    }
    void mover.move([0], { id: 'a', prefix: '' })
    await isPut.promise
    const all = (ranges: readonly number[]) => new Map([[B, ranges]])
    await mover.takeOver({ id: 'a', prefix: '' }, { lastLog: null, stampBound: 5 }, all)
    expect((await log.newest())?.n).toBe(3)
    expect(ownership.ranges).toHaveLength(RANGES)
  })

  test('waits for no move of the taker whose target does not answer; the move goes on from there', async () => {
    const log = new AssignmentLog(store, systemClock)
    await log.put(first())
    const a = await newNode('a')
    a.mover.learn((await log.newest()) as Assignment)
    await a.mover.move([0, 1], B)
    const isPreparing = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<void>()
    a.parts.prepare = async () => {
      isPreparing.resolve()
      await answer.promise
    }
    const moved = a.mover.move([2], { id: 'c', prefix: 'nodes/c/' })
    await isPreparing.promise
    const all = (ranges: readonly number[]) => new Map([[{ id: 'a', prefix: '' }, ranges]])
    await a.mover.takeOver(B, { lastLog: null, stampBound: 5 }, all)
    expect((await log.newest())?.n).toBe(3)
    answer.resolve()
    expect(await moved).toBe(1)
    const owners = ownersOf((await log.newest()) as Assignment)
    expect(owners.slice(0, 4)).toEqual(['a', 'a', 'c', 'a'])
  })

  test.each(['the mover', 'another node'])(
    'a move to it that is under way gives it nothing more, and the ranges are served on: taken by %s',
    async (who) => {
      const log = new AssignmentLog(store, systemClock)
      await log.put(first())
      const [a, c] = [await newNode('a'), await newNode('c')]
      a.mover.learn((await log.newest()) as Assignment)
      await turnOfTheLoop()
      await a.mover.move([0, 1], B)
      const taker = who === 'the mover' ? a : c
      a.parts.prepare = async () => {
        const all = (ranges: readonly number[]) => new Map([[{ id: 'a', prefix: '' }, ranges]])
        await taker.mover.takeOver(B, { lastLog: null, stampBound: 5 }, all)
      }
      expect(await a.mover.move([2], B)).toBe(0)
      expect(a.calls).toContain('resume 1 from 2')
      const newest = (await log.newest()) as Assignment
      expect([newest.n, new Set(ownersOf(newest))]).toEqual([3, new Set(['a'])])
      await turnOfTheLoop()
      expect(['000', '001', '002'].map((id) => a.ownership.isHere(id))).toEqual([true, true, true])
    },
  )
})

test('an older assignment is not gone back to (C6)', async () => {
  const { ownership } = await newNode('a')
  ownership.adopt({ ...first(), n: 3 })
  expect(ownership.adopt(firstAssignment('b', ''))).toEqual({ gained: [], lost: [] })
  expect(ownership.number).toBe(3)
  expect(ownership.ranges).toHaveLength(RANGES)
})

test('a range that comes is nobody’s until what was left of it is out of the way', async () => {
  const { ownership, host, mover } = await newNode('b')
  const waiting = Promise.withResolvers<void>()
  host.acquired = async () => {
    await waiting.promise
    return undefined
  }
  mover.learn(firstAssignment('b', 'nodes/b/'))
  expect([ownership.isHere('000'), ownership.ownerOf('000'), ownership.servesSome]).toEqual([
    false,
    'moving',
    false,
  ])
  waiting.resolve()
  await turnOfTheLoop()
  expect([ownership.isHere('000'), ownership.ownerOf('000'), ownership.servesSome]).toEqual([
    true,
    'here',
    true,
  ])
})

test('a new cell is in a range of its node', async () => {
  const { ownership } = await newNode('a')
  ownership.arrived(ownership.adopt(first()).gained)
  ownership.handOver(Array.from({ length: RANGES - 1 }, (_, i) => i))
  expect(rangeOf(ownership.newCellId())).toBe(RANGES - 1)
})
