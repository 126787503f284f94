import { expect, onTestFinished, test } from 'vitest'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

const GRACE_MS = 60_000

/** An account's key that a rotation has replaced, and another one of the account. */
async function openInGrace(access: 'write' | 'owner' = 'write') {
  const bench = await Bench.open(viaFetch)
  onTestFinished(() => bench.close())
  const old = bench.store.apiKeys.create(bench.accountId, { access })
  bench.store.apiKeys.rotate(bench.accountId, old.id, { graceMs: GRACE_MS })
  const endsAt = new Date(bench.clock.now() + GRACE_MS).toISOString()
  const post = (path: string, body: object = {}) => bench.send({ method: 'POST', path, body, key: old.key })
  return { bench, old, endsAt, post }
}

test('a key in the grace of its rotation makes keys that end with it', async () => {
  const { endsAt, post } = await openInGrace()
  const made = await post('/v1/api-keys')
  expect(made).toMatchObject({ status: 201, json: { expires_at: endsAt } })
  const never = await post('/v1/api-keys', { expires_at: null })
  expect(never).toMatchObject({ status: 403, json: { code: 'forbidden' } })
})

test('it makes no key that lives longer by rotating another one', async () => {
  const { bench, endsAt, post } = await openInGrace()
  const other = bench.store.apiKeys.create(bench.accountId).id
  const rotated = await post(`/v1/api-keys/${other}/rotate`)
  expect(rotated).toMatchObject({ status: 201, json: { expires_at: endsAt } })
})

test('it makes none for another account either', async () => {
  const { bench, endsAt, post } = await openInGrace('owner')
  const made = await post(`/v1/accounts/${bench.strangerId}/api-keys`)
  expect(made).toMatchObject({ status: 201, json: { expires_at: endsAt } })
})

test('its own rotation can be repeated, for a client that lost the answer', async () => {
  const { old, endsAt, post } = await openInGrace()
  const again = await post(`/v1/api-keys/${old.id}/rotate`)
  expect(again).toMatchObject({
    status: 201,
    json: { expires_at: null, replaces: { id: old.id, expires_at: endsAt } },
  })
})
