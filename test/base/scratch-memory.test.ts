import { expect, test } from 'vitest'
import { ScratchMemory } from '../../src/base/machine/scratch-memory.ts'

const KIB = 1_024

test('what is taken between two resets never overlaps, also beyond what is kept', () => {
  const memory = new ScratchMemory(128 * KIB)
  for (let round = 0; round < 4; round++) {
    const taken = Array.from({ length: 40 }, (_, i) => memory.take(8 * KIB).fill(i))
    expect(taken.every((each, i) => each.every((byte) => byte === i))).toBe(true)
    memory.reset()
  }
})

test('the same memory is used again once it is known how much is needed', () => {
  const memory = new ScratchMemory(1_024 * KIB)
  for (let i = 0; i < 10; i++) memory.take(8 * KIB)
  memory.reset()
  const { buffer } = memory.take(8 * KIB)
  memory.reset()
  expect(memory.take(70 * KIB).buffer).toBe(buffer)
  expect(memory.take(2_048 * KIB).buffer).not.toBe(buffer)
})
