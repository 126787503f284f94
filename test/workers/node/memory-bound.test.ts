import { expect, test } from 'vitest'
import { DEFAULT_WORKER_LIMITS, memoryBound } from '../../../src/workers/node/worker-limits.ts'

const MIB = 1_048_576
const limits = { ...DEFAULT_WORKER_LIMITS, memoryMax: 256 * MIB }

test('open cells never take so much of a worker that each statement would end it, whatever is set (invariant 13)', () => {
  expect(memoryBound({ ...limits, openCellsMemoryMax: 100 * MIB }).bytesMax).toBe(100 * MIB)
  expect(memoryBound({ ...limits, openCellsMemoryMax: 1_024 * MIB }).bytesMax).toBe(192 * MIB)
  expect(memoryBound(limits).bytesMax).toBe(48 * MIB)
})
