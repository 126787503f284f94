import { expect, test } from 'vitest'
import { afterMoves, firstAssignment, logsLeftTo } from '../../../src/catalog/assignment/assignment.ts'

const END = { lastLog: null, stampBound: 1 }
const to = (node: string, lo: number, hi: number) => ({ lo, hi, node, prefix: `nodes/${node}/`, end: END })

test('the log of a node without ranges is one node’s to remove: that which has the last of the ranges that it had', () => {
  const two = afterMoves(firstAssignment('A', ''), [to('B', 0, 2_000)])
  for (const prefix of ['', 'nodes/B/']) expect(logsLeftTo(two, prefix)).toEqual([])
  const gone = afterMoves(two, [to('C', 2_001, 3_000), to('B', 3_001, 4_095)])
  expect(logsLeftTo(gone, 'nodes/B/')).toEqual([''])
  expect(logsLeftTo(gone, 'nodes/C/')).toEqual([])
  // It has ranges again, and removes what it wants itself.
  const back = afterMoves(gone, [{ ...to('A', 7, 7), prefix: '' }])
  for (const prefix of ['', 'nodes/B/', 'nodes/C/']) expect(logsLeftTo(back, prefix)).toEqual([])
})
