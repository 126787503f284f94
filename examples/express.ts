// Cells in an Express 5 app. Mount them before express.json(), which rounds integers beyond 2^53 and has a limit of its own.
// Run it: node examples/express.ts
import assert from 'node:assert/strict'
import fs from 'node:fs'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { CellStore, createListener } from 'cellstore'
import express from 'express'

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-example-'))
const store = await CellStore.create(path.join(directory, 'data'), {
  objectStore: pathToFileURL(path.join(directory, 'objects')).href,
})
const { key } = store.apiKeys.create(store.accounts.create().id)

const app = express()
app.use('/cells', createListener(store)) // its routes are /cells/v1/…
app.use(express.json())
app.post('/echo', (request, response) => {
  response.json(request.body)
})

const server = app.listen(0, '127.0.0.1')
await new Promise((resolve) => server.once('listening', resolve))
const { port } = server.address() as AddressInfo

async function ask(method: string, url: string, json?: string): Promise<Record<string, unknown>> {
  const response = await fetch(`http://127.0.0.1:${port}${url}`, {
    method,
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    ...(json === undefined ? {} : { body: json }),
  })
  return (await response.json()) as Record<string, unknown>
}

const { id } = await ask('POST', '/cells/v1/databases')
const sql = `/cells/v1/databases/${id}/sql`

// Every digit of a 64-bit integer arrives. It comes back as a string if a number cannot hold it.
const max = '9223372036854775807'
const result = await ask('POST', sql, `{"sql":"SELECT ? AS big, ? AS small","params":[${max},7]}`)
assert.deepEqual(result['rows'], [{ big: max, small: 7 }])
assert.deepEqual(await ask('POST', '/echo', '{"own":"route"}'), { own: 'route' })

server.closeAllConnections()
await new Promise((resolve) => server.close(resolve))
await store.close()
fs.rmSync(directory, { recursive: true })
console.log('ok')
