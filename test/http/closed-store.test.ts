import path from 'node:path'
import { expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test('A store that was closed under its handler answers shutting_down, with Retry-After, and is no internal error', async () => {
  const store = await StoreDirectory.ofTest(path.join(tempDirectory(), 'data')).create()
  const { key } = store.apiKeys.create(store.accounts.create().id)
  const handler = createHandler(store)
  await store.close()
  for (const where of ['/v1/databases', '/v1/api-keys', '/readyz']) {
    const response = await handler(new Request(`http://localhost${where}`, { headers: { 'x-api-key': key } }))
    expect([where, response.status, await response.json()]).toMatchObject([
      where,
      503,
      { code: 'shutting_down' },
    ])
    expect(response.headers.get('retry-after')).not.toBeNull()
  }
})
