import { expect, test } from 'vitest'
import { memoryBound } from '../../../src/workers/node/processes/worker-limits.ts'

const MIB = 1_048_576

test('open cells never take so much of a worker that each statement would end it (invariant 13)', () => {
  for (const [memory, openCells] of [
    [256, 48],
    [100, 12.5],
    [1_024, 432],
  ] as const)
    expect(memoryBound({ memoryMax: memory * MIB })).toEqual({
      bytesMax: openCells * MIB,
      nearEndBytes: (memory * MIB * 3) / 4,
    })
})
