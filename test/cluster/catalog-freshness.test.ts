import { expect, test } from 'vitest'
import { CatalogFreshness } from '../../src/cluster/catalog-freshness.ts'
import type { NodeRow } from '../../src/cluster/membership/node-table.ts'
import { CellError } from '../../src/errors.ts'
import { FakeClock } from '../support/fake-clock.ts'

const NODE: NodeRow = {
  id: 'b',
  address: 'http://b',
  prefix: 'nodes/b/',
  epoch: 1,
  counter: 1,
  state: 'alive',
  seenVersion: 0,
  stampBound: 0,
  busyCells: 0,
  startedAt: 0,
}

/** A node whose catalog has version 7, and another one. PostgreSQL is away. */
function newNode(others: readonly NodeRow[] = [NODE]) {
  const clock = new FakeClock()
  const state = { version: 7, isAway: true, theirs: 7 as number | undefined, asked: 0 }
  const catchUp = async () => {
    if (state.isAway) throw new CellError('cluster_unavailable', 'PostgreSQL is away.')
  }
  const freshness = new CatalogFreshness({
    clock,
    catalog: () => ({ version: state.version, catchUp }),
    others: () => others,
    versionOf: async () => {
      state.asked++
      if (state.theirs === undefined) throw new CellError('node_unreachable', 'It does not answer.')
      return state.theirs
    },
  })
  const mayLackChanges = async () => {
    await freshness.catchUp(state.version)
    clock.advance(1_000)
    return await freshness.mayLackChanges()
  }
  return { clock, state, freshness, mayLackChanges }
}

test('without PostgreSQL, a node may lack changes only if another one is further, or does not say how far it is', async () => {
  const { state, mayLackChanges } = newNode()
  expect(await mayLackChanges()).toBe(false)
  state.theirs = 8
  expect(await mayLackChanges()).toBe(true)
  state.theirs = undefined
  expect(await mayLackChanges()).toBe(true)
  state.isAway = false
  expect(await mayLackChanges()).toBe(false)
  expect(await newNode([]).mayLackChanges()).toBe(false)
})

test('however many ask, the others are asked once a second', async () => {
  const { clock, state, freshness, mayLackChanges } = newNode()
  await mayLackChanges()
  await Promise.all([1, 2, 3].map(() => freshness.mayLackChanges()))
  expect(state.asked).toBe(1)
  clock.advance(1_000)
  await freshness.mayLackChanges()
  expect(state.asked).toBe(2)
})

test('what came while a request was under way counts as news for it', async () => {
  const { state, freshness } = newNode()
  const since = state.version
  state.version++
  expect(await freshness.catchUp(since)).toBe(true)
  expect(await freshness.catchUp(state.version)).toBe(false)
})
