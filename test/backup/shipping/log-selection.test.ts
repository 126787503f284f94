import { describe, expect, test } from 'vitest'
import type { LogPiece, UnshippedLog } from '../../../src/backup/changes/log/cell-log.ts'
import { ShippingOrder, selectLogs } from '../../../src/backup/shipping/log-selection.ts'

function log(accountId: string | null, cellId: string, pieces = 1): UnshippedLog {
  const piece = { salts: '', pageSize: 4_096, from: 0, to: 1, path: cellId, commits: [[1, 1]] }
  const numbered = Array.from({ length: pieces }, (_, i) => ({ ...piece, sequence: i + 1 }) as LogPiece)
  return { accountId, cellId, history: cellId, pieces: numbered }
}

const cellsOf = (logs: readonly UnshippedLog[]) => logs.map(({ cellId }) => cellId)

describe('What an object has no room for', () => {
  test('is of the accounts with the most cells, whichever worker told of theirs first', () => {
    const told = [log('a', 'a1'), log('a', 'a2'), log('a', 'a3'), log('b', 'b1'), log(null, 'owner’s')]
    const { logs, isAll } = selectLogs(told, new ShippingOrder(), 4)
    expect([cellsOf(logs), isAll]).toEqual([['a1', 'b1', 'owner’s', 'a2'], false])
  })

  test('is not always of the same account: those that had no room come first in the next object', () => {
    const turns = new ShippingOrder()
    // An account commits as much as an object has room for while that is stored.
    const told = [log('a', 'a1', 3), log('b', 'b1'), log('c', 'c1')]
    const selected = Array.from({ length: 4 }, () => selectLogs(told, turns, 3).logs)
    expect(selected.map(cellsOf)).toEqual([
      ['a1'],
      ['b1', 'c1', 'a1'],
      ['b1', 'c1', 'a1'],
      ['b1', 'c1', 'a1'],
    ])
  })

  test('is not always of the same cells: of an account, those come first that have waited longest', () => {
    const order = new ShippingOrder()
    // Each commits again while an object is stored. One worker always tells of its cells before the other.
    const told = ['a', 'b', 'c', 'd', 'e'].map((cellId) => log('one', cellId))
    const selected = Array.from({ length: 5 }, () => cellsOf(selectLogs(told, order, 2).logs))
    expect(selected).toEqual([
      ['a', 'b'],
      ['c', 'd'],
      ['e', 'a'],
      ['b', 'c'],
      ['d', 'a'],
    ])
  })
})
