import { expect, test } from 'vitest'
import { fingerprintOf } from '../../src/http/core/idempotency.ts'

test('a body has the fingerprint that an earlier version has stored for it, whatever the order of its members', () => {
  const from = { version: 'v', cell_id: 'é"\n' }
  const stored = 'd9e1c53807f67c61ca33e92dc8441b04e75933cc63e466e3260324da62abc9c5'
  expect(fingerprintOf({ name: 'acme', from, n: 2n ** 63n })).toBe(stored)
  expect(fingerprintOf({ n: 2n ** 63n, from: { cell_id: from.cell_id, version: 'v' }, name: 'acme' })).toBe(
    stored,
  )
  expect(fingerprintOf({ name: 'acme', from, n: 1 })).not.toBe(stored)
})
