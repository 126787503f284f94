import { expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { createLedger, ScratchPlace } from '../support/backup/scratch-store.ts'

test('A backup that was requested with a key is a tenant’s, and the cell says when it was last stored', async () => {
  const place = new ScratchPlace()
  const store = await place.create()
  const { id: accountId } = store.accounts.create()
  const { key } = store.apiKeys.create(accountId)
  const { id } = createLedger(store, { accountId })
  const handler = createHandler(store)
  const ask = async (method: string, path: string) => {
    const headers = { 'x-api-key': key }
    const response = await handler(new Request(`http://localhost/v1/databases${path}`, { method, headers }))
    return (await response.json()) as Record<string, unknown>
  }
  expect(await ask('GET', `/${id}`)).toMatchObject({ last_stored_at: null })
  await store.backups.snapshot(id)
  const at = new Date(place.clock.now()).toISOString()
  place.clock.step(60_000)
  await ask('POST', `/${id}/backup`)
  const later = new Date(place.clock.now()).toISOString()
  await ask('POST', `/${id}/backup/incr`)
  const result = await store.retention?.prune(id, { dryRun: true })
  expect(result?.versions.map(({ origin }) => origin)).toEqual(['tenant', 'tenant', 'owner'])
  expect(at < later).toBe(true)
  expect(await ask('GET', `/${id}`)).toMatchObject({ last_stored_at: later })
  expect(await ask('GET', '')).toMatchObject({ databases: [{ id, last_stored_at: later }] })
  // Tenants change nothing of retention.
  for (const path of ['prune', 'purge', 'plan'])
    expect(await ask('POST', `/${id}/backups/${path}`)).toMatchObject({ code: 'not_found' })
  for (const path of ['pin', 'unpin'])
    expect(await ask('POST', `/${id}/backups/${path}`)).toMatchObject({ code: 'forbidden' })
})
