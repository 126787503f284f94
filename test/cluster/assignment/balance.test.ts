import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  batches,
  chooseRanges,
  levelingMove,
  loadOf,
  shareOut,
} from '../../../src/cluster/assignment/balance.ts'
import { SEED } from '../../support/seed.ts'

const ALL = Array.from({ length: 4_096 }, (_, i) => i)
const node = fc.record({ ranges: fc.nat(4_096), busyCells: fc.nat(100_000) })
const nodes = fc
  .array(node, { minLength: 1, maxLength: 8 })
  .map((all) => all.map((each, i) => ({ id: `n${i}`, ...each })))

describe('nodes are leveled by their busy cells', () => {
  test('the node with the most gives half of the difference to the one with the least', () => {
    const loads = [
      { id: 'a', ranges: 1_000, busyCells: 100 },
      { id: 'b', ranges: 1_000, busyCells: 900 },
      { id: 'c', ranges: 1_000, busyCells: 500 },
    ]
    expect(levelingMove(loads)).toEqual({ from: 'b', to: 'a', load: 400 })
  })

  test('a node without ranges gets some, also if no cell is busy', () => {
    const loads = [
      { id: 'a', ranges: 4_096, busyCells: 0 },
      { id: 'b', ranges: 0, busyCells: 0 },
    ]
    const move = levelingMove(loads)
    expect(move).toMatchObject({ from: 'a', to: 'b' })
    expect(chooseRanges(ALL, move?.load ?? 0, () => 0)).toEqual(ALL.slice(2_048))
  })

  test('nodes that are about level are left alone', () => {
    const loads = [
      { id: 'a', ranges: 2_048, busyCells: 1_000 },
      { id: 'b', ranges: 2_048, busyCells: 1_090 },
    ]
    expect(levelingMove(loads)).toBeUndefined()
  })

  test('one range with most of the busy cells does not go to and fro', () => {
    expect(chooseRanges([7], 50, () => 1_000)).toEqual([])
  })

  test('a range that would only swap the two nodes stays', () => {
    const loads = ['a', 'b'].map((id, i) => ({ id, ranges: 4 + i, busyCells: (4 + i) * 24 }))
    const move = levelingMove(loads)
    expect(move).toMatchObject({ from: 'b', to: 'a' })
    expect(chooseRanges([0, 1, 2, 3, 4], move?.load ?? 0, () => 24)).toEqual([])
  })

  test('moves end: each brings two nodes nearer', () => {
    fc.assert(
      fc.property(nodes, (all) => {
        const loads = all.map((each) => ({ ...each, busyCells: each.busyCells + 0 }))
        for (let moves = 0; moves < 1_000; moves++) {
          const move = levelingMove(loads)
          if (move === undefined) return true
          const [from, to] = [move.from, move.to].map((id) => loads.find((each) => each.id === id))
          if (from === undefined || to === undefined) return false
          // As if each range had the same share of the busy cells.
          const share = Math.min(1, move.load / loadOf(from))
          const ranges = Math.round(from.ranges * share)
          const busyCells = Math.round(from.busyCells * share)
          if (ranges === 0 && busyCells === 0) return true
          from.ranges -= ranges
          from.busyCells -= busyCells
          to.ranges += ranges
          to.busyCells += busyCells
        }
        return false
      }),
      { seed: SEED },
    )
  })
})

describe('the ranges of a lost node are shared out', () => {
  test('each goes to one node, and neighbours stay together', () => {
    fc.assert(
      fc.property(nodes, fc.subarray(ALL.slice(0, 600)), fc.nat(10_000), (heirs, ranges, busyCells) => {
        const shared = shareOut(ranges, heirs, busyCells)
        expect([...shared.values()].flat().toSorted((a, b) => a - b)).toEqual(ranges)
        for (const each of shared.values()) expect(each).toEqual(each.toSorted((a, b) => a - b))
      }),
      { seed: SEED },
    )
  })

  test('nodes that are level get as many each', () => {
    const heirs = ['a', 'b', 'c'].map((id) => ({ id, ranges: 100, busyCells: 10 }))
    const sizes = [...shareOut(ALL.slice(0, 300), heirs, 0).values()].map((each) => each.length)
    expect(sizes).toEqual([100, 100, 100])
  })

  test('a node that has much already gets nothing', () => {
    const heirs = [
      { id: 'a', ranges: 0, busyCells: 10_000 },
      { id: 'b', ranges: 0, busyCells: 0 },
    ]
    expect([...shareOut(ALL, heirs, 0).keys()]).toEqual(['b'])
  })
})

test('ranges of a lost node with busy cells go to several nodes, also if one had a little less to do', () => {
  const heirs = [24, 26, 27, 28, 90].map((busyCells, i) => ({ id: `n${i}`, ranges: 4, busyCells }))
  const shared = shareOut([0, 1, 2, 3], heirs, 100)
  expect([...shared].map(([id, ranges]) => [id, ranges.length])).toEqual([
    ['n0', 1],
    ['n1', 1],
    ['n2', 1],
    ['n3', 1],
  ])
})

test('a move closes no more busy cells than it may, unless one range has more', () => {
  const busy = [3, 3, 3, 12, 0, 0, 3]
  expect(batches([0, 1, 2, 3, 4, 5, 6], (range) => busy[range] ?? 0, 6)).toEqual([
    [0, 1],
    [2],
    [3],
    [4, 5, 6],
  ])
})
