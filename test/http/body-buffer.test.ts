import { expect, test } from 'vitest'
import { BodyBuffer } from '../../src/http/body-buffer.ts'
import { Random } from '../support/random.ts'

test('a body is what its pieces are, however they are cut', () => {
  const random = new Random(8)
  for (let round = 0; round < 50; round++) {
    const whole = Buffer.from(Array.from({ length: random.below(200_000) }, () => random.below(256)))
    const body = new BodyBuffer(random.below(2) === 0 ? undefined : whole.length)
    for (let at = 0; at < whole.length; ) {
      const end = Math.min(whole.length, at + 1 + random.below(round % 2 === 0 ? 3 : 70_000))
      body.add(whole.subarray(at, end))
      at = end
    }
    expect(whole.equals(body.bytes)).toBe(true)
    expect(body.length).toBe(whole.length)
  }
})

test('one piece is not copied, and small ones are not kept', () => {
  const piece = Buffer.from('{}')
  const one = new BodyBuffer(2)
  one.add(piece)
  expect(one.bytes.buffer).toBe(piece.buffer)
  const many = new BodyBuffer(undefined)
  for (let i = 0; i < 100_000; i++) many.add(piece)
  expect(many.bytes.buffer).not.toBe(piece.buffer)
  expect(many.bytes.buffer.byteLength).toBeLessThan(400_000)
})
