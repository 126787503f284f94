import { expect, test } from 'vitest'
import { BodyBuffer } from '../../src/http/body/body-buffer.ts'
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
  const piece = new Uint8Array(Buffer.from('{}'))
  const one = new BodyBuffer(2)
  one.add(piece)
  expect(one.bytes.buffer).toBe(piece.buffer)
  const many = new BodyBuffer(undefined)
  for (let i = 0; i < 100_000; i++) many.add(piece)
  expect(many.bytes.buffer).not.toBe(piece.buffer)
  expect(many.bytes.buffer.byteLength).toBeLessThan(400_000)
})

test('a short piece of something larger does not keep that, nor do bodies that grow share their memory', () => {
  const read = Buffer.alloc(65_536, 'x')
  const bodies = Array.from({ length: 4 }, () => new BodyBuffer(100))
  for (const body of bodies) body.add(read.subarray(10, 60))
  expect(bodies.map(({ bytes }) => bytes.buffer.byteLength)).toEqual([50, 50, 50, 50])
  for (const body of bodies) body.add(read.subarray(0, 50))
  expect(bodies.map(({ bytes }) => bytes.buffer.byteLength)).toEqual([100, 100, 100, 100])
  expect(bodies.map(({ bytes }) => Buffer.from(bytes).toString())).toEqual(Array(4).fill('x'.repeat(100)))
})

test('a body that was copied gives its memory back once nobody needs it', () => {
  const body = new BodyBuffer(131_072)
  for (const byte of [1, 2]) body.add(Buffer.alloc(65_536, byte))
  const { bytes } = body
  expect([bytes.length, bytes[0], bytes.at(-1)]).toEqual([131_072, 1, 2])
  body.release()
  expect(bytes).toHaveLength(0)
})

test("pieces that others may use stay, and so does a body that is somebody else's only piece", () => {
  const pieces = [1, 2].map((byte) => Buffer.alloc(65_536, byte))
  const body = new BodyBuffer(131_072)
  for (const piece of pieces) body.add(piece)
  body.release()
  const one = new BodyBuffer(undefined)
  one.add(pieces[0] as Buffer)
  one.release()
  expect(pieces.map((piece) => [piece.length, piece.at(-1)])).toEqual([
    [65_536, 1],
    [65_536, 2],
  ])
})
