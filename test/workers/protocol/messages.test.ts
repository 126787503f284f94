import { expect, test } from 'vitest'
import { encodeMessage, MessageReader, type Parts } from '../../../src/workers/protocol/messages.ts'
import { seededRandom } from '../../support/seed.ts'

const MESSAGES: unknown[] = [
  { type: 'done' },
  { n: 2n ** 63n, blob: new Uint8Array([0, 1, 255]), nothing: undefined, null: null, date: 1.5 },
  { text: 'é🂡\u0000', long: 'x'.repeat(200_000), list: [1, [2, { three: 3 }]] },
  '',
  [-0, 0, Number.NaN, Number.POSITIVE_INFINITY, 1e300, 2 ** 53],
  [undefined, null],
  { half: '\ud800', list: [{ key: '\u2028', n: -1 }] },
  JSON.parse('{"__proto__": 1, "toJSON": "a string"}'),
  { blobs: [new Uint8Array(0), new Uint8Array(100_000).fill(7)] },
]

test('messages arrive as they were, however the stream of bytes is cut', () => {
  const random = seededRandom()
  const stream = Buffer.concat(MESSAGES.map((message) => encodeMessage({ message })))
  for (let round = 0; round < 20; round++) {
    const arrived: unknown[] = []
    const reader = new MessageReader((message) => arrived.push(message))
    const longest = random.pick([1, 3, 5, 1_000, 100_000])
    for (let at = 0; at < stream.length; ) {
      const length = longest === 1 && at > 2_000 ? stream.length : 1 + random.below(longest)
      reader.push(stream.subarray(at, at + length))
      at += length
    }
    expect(arrived).toEqual(MESSAGES)
  }
})

test('what a message holds outlives the pieces that it came in', () => {
  const stream = Buffer.concat(MESSAGES.map((message) => encodeMessage({ message })))
  for (const length of [16_384, 65_536, stream.length]) {
    const arrived: unknown[] = []
    const reader = new MessageReader((message) => arrived.push(message))
    // As from a pipe: each piece has memory of its own, which the reader gives back.
    for (let at = 0; at < stream.length; at += length) {
      const piece = Buffer.allocUnsafeSlow(Math.min(length, stream.length - at))
      stream.copy(piece, 0, at)
      reader.push(piece)
    }
    expect(arrived).toEqual(MESSAGES)
  }
})

test('a message of no bytes is refused, however its length is cut', () => {
  for (const pieces of [[4], [2, 2], [1, 3]]) {
    const reader = new MessageReader(() => {})
    expect(() => {
      for (const length of pieces) reader.push(Buffer.alloc(length))
    }).toThrow()
  }
})

test.each([true, false])(
  'parts arrive beside their message, whether it is JSON (%s) or a structured clone',
  (isJson) => {
    const parts: Parts = ['é🂡', new Uint8Array([0, 1, 255]), '', new Uint8Array(100_000).fill(7)]
    const stream = encodeMessage({ message: { type: 'batch', at: [3, 0] }, parts, isJson })
    for (const length of [7, 1_000, stream.length]) {
      const arrived: unknown[] = []
      const reader = new MessageReader((...message) => arrived.push(message))
      for (let at = 0; at < stream.length; at += length)
        reader.push(Buffer.from(stream.subarray(at, at + length)))
      expect(arrived).toEqual([[{ type: 'batch', at: [3, 0] }, parts.map((part) => Buffer.from(part))]])
    }
  },
)

test.each<[what: string, message: unknown, bytes: number]>([
  ['a long text', '\u0001'.repeat(1_000_000), 1_000_000],
  ['many texts', Array.from({ length: 10_000 }, () => '\u0001'.repeat(100)), 1_000_000],
  ['a long name', { ['\u0001'.repeat(1_000_000)]: 1 }, 1_000_000],
  ['many numbers', Array.from({ length: 100_000 }, () => -1e-300 / 7), 800_000],
])('a message takes little more than what is in it: %s (invariant 13)', (_what, message, bytes) => {
  expect(encodeMessage({ message }).length).toBeLessThan(1.2 * bytes)
})
