import { expect, test } from 'vitest'
import { releaseBytes } from '../../src/base/machine/release-bytes.ts'

test('the memory of long bytes is given back at once', () => {
  const bytes = Buffer.alloc(65_536)
  const { buffer } = bytes
  releaseBytes(bytes)
  expect([bytes.length, buffer.byteLength]).toEqual([0, 0])
})

test.each([
  ['a part of something larger', Buffer.alloc(100_000).subarray(0, 65_536)],
  ['what is short', Buffer.alloc(1_000)],
  ['what several threads share', Buffer.from(new SharedArrayBuffer(65_536))],
])('%s is left as it is', (_, bytes) => {
  const { length } = bytes
  bytes.fill(7)
  releaseBytes(bytes)
  expect(bytes.equals(Buffer.alloc(length, 7))).toBe(true)
})
