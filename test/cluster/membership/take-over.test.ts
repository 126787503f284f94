import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { leaseTimes } from '../../../src/cluster/membership/lease.ts'
import type { NodeRow } from '../../../src/cluster/membership/node-table.ts'
import { TakeOver } from '../../../src/cluster/membership/take-over.ts'
import { CellError } from '../../../src/errors.ts'
import { SteppedClock } from '../../../src/testing/stepped-clock.ts'
import { MemoryNodeTable } from '../../support/cluster/memory-node-table.ts'
import { rejectedBy } from '../../support/thrown.ts'

const NO_LOG = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const LAST = { epoch: 1, number: 12 }

/** `w` has joined, and is silent. What the taker does is noted with the time at which it did so. */
async function setUp({ answers = false, hasEnded = false } = {}) {
  const [table, clock] = [new MemoryNodeTable(), new SteppedClock()]
  await table.join({
    id: 'w',
    address: 'http://w',
    prefix: 'nodes/w/',
    epoch: 1,
    stampBound: 99,
    startedAt: 0,
  })
  const steps: string[] = []
  const note = (step: string) => steps.push(`${clock.monotonic()} ${step}`)
  const prefix = {
    hasEnded: async () => hasEnded,
    fence: async () => {
      note(`fenced, ${table.rows.get('w')?.state}`)
      return 2
    },
    lastLog: async (fence: number) => {
      note(`read up to the fence ${fence}`)
      return LAST
    },
  }
  const takeOver = new TakeOver({
    table,
    times: leaseTimes(6_000),
    clock,
    log: NO_LOG,
    prefixOf: () => prefix,
    answers: async () => answers,
    reassign: async (end) => void note(`reassigned ${JSON.stringify(end)}`),
  })
  const node = table.rows.get('w') as NodeRow
  const silent = (silentMs: number) => ({
    watched: { id: 'w', epoch: 1, counter: 0, server: table.server },
    silentMs,
  })
  return { table, clock, steps, prefix, takeOver, node, silent }
}

async function pass(clock: SteppedClock, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 100) {
    for (let turn = 0; turn < 5; turn++) await turnOfTheLoop()
    clock.advance(100)
  }
  await turnOfTheLoop()
}

describe('a silent node is taken over', () => {
  test('declared dead, fenced, and read only once its leases have ended (C1, C2)', async () => {
    const { table, clock, steps, takeOver, node, silent } = await setUp()
    const taking = takeOver.take(node, silent(6_000))
    await pass(clock, 2_900)
    expect(steps).toEqual(['0 fenced, dead'])
    await pass(clock, 200)
    expect(await taking).toBe(true)
    expect(steps.slice(1)).toEqual([
      '3000 read up to the fence 2',
      `3000 reassigned ${JSON.stringify({ node: 'w', lastLog: LAST, stampBound: 99 })}`,
    ])
    expect(table.rows.has('w')).toBe(false)
  })

  test('at once, where its process is known to have ended', async () => {
    const { steps, takeOver, node, silent } = await setUp({ hasEnded: true })
    expect(await takeOver.take(node, silent(5_000))).toBe(true)
    expect(steps.map((each) => each.split(' ')[0])).toEqual(['0', '0', '0'])
  })

  test.each([
    ['it answers its taker', { answers: true }, 60_000],
    ['it was not silent for its whole time to live', {}, 5_999],
  ])('not while %s', async (_, state, silentMs) => {
    const { table, steps, takeOver, node, silent } = await setUp(state)
    expect(await takeOver.take(node, silent(silentMs))).toBe(false)
    expect(steps).toEqual([])
    expect(table.rows.get('w')?.state).toBe('alive')
  })

  test('not if it has beaten meanwhile', async () => {
    const { table, steps, takeOver, node, silent } = await setUp()
    await table.beat({ id: 'w', epoch: 1, counter: 1, seenVersion: 0, stampBound: 0, busyCells: 0 })
    expect(await takeOver.take(node, silent(60_000))).toBe(false)
    expect(steps).toEqual([])
  })

  test('by one node alone', async () => {
    const { clock, steps, takeOver, node, silent } = await setUp()
    const both = Promise.all([takeOver.take(node, silent(6_000)), takeOver.take(node, silent(6_000))])
    await pass(clock, 3_100)
    expect((await both).toSorted()).toEqual([false, true])
    expect(steps.filter((each) => each.includes('reassigned'))).toHaveLength(1)
  })

  test.each([
    [
      'has forgotten that it is dead',
      (table: MemoryNodeTable, node: NodeRow) => void table.rows.set('w', node),
    ],
    ['is another server', (table: MemoryNodeTable) => void Object.assign(table, { server: 'server-2' })],
  ])('not if PostgreSQL %s', async (_, forget) => {
    const { table, clock, steps, takeOver, node, silent } = await setUp()
    const taking = takeOver.take(node, silent(6_000))
    await pass(clock, 1_000)
    forget(table, node)
    await pass(clock, 2_500)
    expect(await taking).toBe(false)
    expect(steps.some((each) => each.includes('reassigned'))).toBe(false)
  })

  test('another node goes on where a taker has ended', async () => {
    const { table, clock, steps, prefix, takeOver, node, silent } = await setUp()
    prefix.lastLog = async () => {
      throw new CellError('object_store_unavailable', 'The taker is gone.')
    }
    const taking = takeOver.take(node, silent(6_000))
    const failed = rejectedBy(taking)
    await pass(clock, 3_100)
    expect((await failed).code).toBe('object_store_unavailable')
    expect(table.rows.get('w')?.state).toBe('dead')
    prefix.lastLog = async () => LAST
    const resuming = takeOver.resume(table.rows.get('w') as NodeRow, table.server)
    await pass(clock, 3_100)
    expect(await resuming).toBe(true)
    expect(steps.filter((each) => each.includes('reassigned'))).toHaveLength(1)
    expect(table.rows.has('w')).toBe(false)
  })
})
