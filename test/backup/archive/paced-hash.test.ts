import { createHash, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { PacedHash } from '../../../src/backup/archive/paced-hash.ts'

const MIB = 1_048_576

test('a paced hash is the SHA-256 of all its bytes, in whatever pieces they come', async () => {
  const paced = new PacedHash()
  const plain = createHash('sha256')
  for (const length of [0, 1, 65_535, 65_536, 65_537, 131_072, 3 * MIB + 1]) {
    const bytes = randomBytes(length)
    await paced.update(bytes)
    plain.update(bytes)
  }
  expect(paced.digest()).toBe(plain.digest('hex'))
})

test('a paced hash lets the event loop turn, and ends even if other work fills every turn', async () => {
  let turns = 0
  let done = false
  const busy = () => {
    turns++
    for (const end = performance.now() + 2; performance.now() < end; );
    if (!done) setImmediate(busy)
  }
  setImmediate(busy)
  await new PacedHash().update(Buffer.alloc(4 * MIB))
  done = true
  expect(turns).toBeGreaterThan(1)
})
