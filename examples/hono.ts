// Cells in a Hono app: the handler takes the Request that Hono got. Run it: node examples/hono.ts
import assert from 'node:assert/strict'
import fs from 'node:fs'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { serve } from '@hono/node-server'
import { CellStore, createHandler } from 'cellstore'
import { Hono } from 'hono'

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-example-'))
const store = await CellStore.create(path.join(directory, 'data'), {
  objectStore: pathToFileURL(path.join(directory, 'objects')).href,
})
const { key } = store.apiKeys.create(store.accounts.create().id)

const cells = createHandler(store)
const app = new Hono()
app.get('/', (c) => c.text('a page of your own'))
app.all('/v1/*', (c) => cells(c.req.raw))

const { port, server } = await new Promise<{ port: number; server: ReturnType<typeof serve> }>((resolve) => {
  const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, (info: AddressInfo) =>
    resolve({ port: info.port, server }),
  )
})

async function ask(method: string, url: string, body?: unknown): Promise<Record<string, unknown>> {
  const response = await fetch(`http://127.0.0.1:${port}${url}`, {
    method,
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return (await response.json()) as Record<string, unknown>
}

const { id } = await ask('POST', '/v1/databases')
const cell = `/v1/databases/${id}`

// A session that expires, and a rate limit: at most two requests a minute.
const { created, ttl_seconds } = await ask('PUT', `${cell}/kv/session%2F1`, {
  value: 'Ann',
  ttl_seconds: 3_600,
})
assert.deepEqual([created, ttl_seconds], [true, 3_600])
for (let n = 1; n <= 3; n++) {
  const { value } = await ask('POST', `${cell}/kv/ops/incr`, { key: 'limit:ann', ttl_seconds: 60 })
  assert.equal(Number(value) <= 2, n <= 2)
}
assert.deepEqual(await ask('POST', `${cell}/kv/ops/ttl`, { keys: ['nothing'] }), [null])

// Every error is a problem document with a code.
const refused = await ask('POST', `${cell}/sql`, { sql: "ATTACH 'other.db' AS other" })
assert.equal(refused['code'], 'statement_not_allowed')

await new Promise((resolve) => server.close(resolve))
await store.close()
fs.rmSync(directory, { recursive: true })
console.log('ok')
