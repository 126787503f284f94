import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import Database from 'better-sqlite3'

/**
 * What a server of entries can't do without, and nothing else: node:http, one prepared statement, and for changes one
 * transaction for all that came in one turn of the event loop, answered once it is on disk. It knows no keys, no routes
 * and no errors. `/<key>` is an entry. Its argument is a directory; it prints its address when it serves.
 */
const database = new Database(path.join(process.argv[2] ?? '', 'bare.db'))
database.pragma('journal_mode = WAL')
database.pragma('synchronous = FULL')
database.exec(
  'CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER) STRICT, WITHOUT ROWID',
)
const select = database
  .prepare('SELECT value FROM kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)')
  .pluck()
const upsert = database.prepare(
  'INSERT INTO kv VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at',
)

interface Put {
  key: string
  value: string
  response: ServerResponse
}
let group: Put[] = []

const commit = database.transaction((puts: readonly Put[]) => {
  for (const { key, value } of puts) upsert.run(key, value, null)
})

function commitGroup(): void {
  const puts = group
  group = []
  commit(puts)
  for (const { key, response } of puts) answer(response, { key })
}

function get(key: string, response: ServerResponse): void {
  answer(response, { key, value: select.get(key, Date.now()) })
}

function put(key: string, request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const { value } = JSON.parse(Buffer.concat(chunks).toString()) as { value: string }
    if (group.push({ key, value, response }) === 1) setImmediate(commitGroup)
  })
}

function answer(response: ServerResponse, body: object): void {
  const json = JSON.stringify(body)
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(json) })
  response.end(json)
}

const server = createServer((request, response) => {
  const key = request.url?.slice(1) ?? ''
  if (request.method === 'GET') get(key, response)
  else put(key, request, response)
})
server.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }))
})
