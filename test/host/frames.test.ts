import { expect, test } from 'vitest'
import { encodeFrame, FrameReader } from '../../src/host/frames.ts'
import { seededRandom } from '../fixtures/seed.ts'

const MESSAGES: unknown[] = [
  { type: 'done' },
  { n: 2n ** 63n, blob: new Uint8Array([0, 1, 255]), nothing: undefined, null: null, date: 1.5 },
  { text: 'é🂡\u0000', long: 'x'.repeat(200_000), list: [1, [2, { three: 3 }]] },
  '',
  { blobs: [new Uint8Array(0), new Uint8Array(100_000).fill(7)] },
]

test('messages arrive as they were, however the stream of bytes is cut', () => {
  const random = seededRandom('frames')
  const stream = Buffer.concat(MESSAGES.map(encodeFrame))
  for (let round = 0; round < 20; round++) {
    const arrived: unknown[] = []
    const reader = new FrameReader((message) => arrived.push(message))
    const longest = random.pick([1, 3, 5, 1_000, 100_000])
    for (let at = 0; at < stream.length; ) {
      const length = longest === 1 && at > 2_000 ? stream.length : 1 + random.below(longest)
      reader.push(stream.subarray(at, at + length))
      at += length
    }
    expect(arrived).toEqual(MESSAGES)
  }
})
