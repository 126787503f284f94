import { describe, expect, test } from 'vitest'
import { afterMoves, firstAssignment, RANGES } from '../../../src/catalog/assignment/assignment.ts'
import { ClusterOwnership } from '../../../src/cluster/assignment/cluster-ownership.ts'

const ALL = { lo: 0, hi: RANGES - 1 }
const MINUTE_MS = 60_000
/** What a take-over takes at least, by default. */
const TAKE_OVER_MS = 8_000

function ownershipOf(nodeId: string): ClusterOwnership {
  return new ClusterOwnership({
    nodeId,
    prefix: `nodes/${nodeId}/`,
    lease: { isValid: () => true },
    addressOf: () => undefined,
    random: () => 0.5,
  })
}

describe('Up to when a node may stamp versions', () => {
  test('is after all that a lost node could stamp, and does not go ahead with each node that is lost in turn', () => {
    let assignment = firstAssignment('0', 'nodes/0/')
    let now = 1_000_000
    let before = 0
    for (let i = 0; i < 20; i++) {
      const ownership = ownershipOf(String(i))
      ownership.adopt(assignment)
      const bound = ownership.nextStampBound(now)
      expect(bound).toBeGreaterThan(before)
      expect(bound - now).toBeLessThanOrEqual(MINUTE_MS)
      const node = String(i + 1)
      const end = { lastLog: null, stampBound: bound }
      assignment = afterMoves(assignment, [{ ...ALL, node, prefix: `nodes/${node}/`, end }])
      before = bound
      now += TAKE_OVER_MS
    }
  })

  test('does not go back with a clock that is set back: what was stamped before counts at a take-over', () => {
    const ownership = ownershipOf('a')
    ownership.stampBound = ownership.nextStampBound(1_000_000)
    expect(ownership.nextStampBound(0)).toBe(ownership.stampBound)
  })
})
