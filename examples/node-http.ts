// Cells behind a plain node:http server, next to routes of your own. Run it: node examples/node-http.ts
import assert from 'node:assert/strict'
import fs from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { CellStore, createListener } from 'cellstore'

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-example-'))
const store = await CellStore.create(path.join(directory, 'data'), {
  objectStore: pathToFileURL(path.join(directory, 'objects')).href,
})
const { key } = store.apiKeys.create(store.accounts.create().id)

const cells = createListener(store)
const server = http.createServer((request, response) => {
  if (request.url?.startsWith('/v1/')) cells(request, response)
  else response.end('a page of your own')
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const { port } = server.address() as AddressInfo

async function ask(method: string, url: string, body?: unknown): Promise<Record<string, unknown>> {
  const response = await fetch(`http://127.0.0.1:${port}${url}`, {
    method,
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  assert(response.ok, `${method} ${url}: ${response.status}`)
  return (await response.json()) as Record<string, unknown>
}

const { id } = await ask('POST', '/v1/databases', { name: 'acme' })
const cell = `/v1/databases/${id}`

// SQL and KV share one file, so they can share one transaction.
await ask('POST', `${cell}/sql`, { sql: 'CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)' })
await ask('POST', `${cell}/batch`, {
  operations: [
    { sql: 'INSERT INTO orders (item) VALUES (?)', params: ['a chair'] },
    { kv: 'incr', key: 'orders' },
  ],
})
assert.deepEqual((await ask('POST', `${cell}/sql`, { sql: 'SELECT * FROM orders' }))['rows'], [
  { id: 1, item: 'a chair' },
])
assert.equal((await ask('GET', `${cell}/kv/orders`))['value'], '1')

// A backup, an accident, and a restore.
await ask('POST', `${cell}/backup`)
await ask('POST', `${cell}/sql`, { sql: 'DELETE FROM orders' })
await ask('POST', `${cell}/restore`, {})
assert.equal((await ask('POST', `${cell}/sql`, { sql: 'SELECT * FROM orders' }))['row_count'], 1)

server.closeAllConnections()
await new Promise((resolve) => server.close(resolve))
await store.close()
fs.rmSync(directory, { recursive: true })
console.log('ok')
