import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import Database from 'better-sqlite3'

/**
 * What a server of entries can't do without, and nothing else: node:http, one prepared statement, and for changes one
 * transaction for all that came in one turn of the event loop, answered once it is on disk. It knows no keys, no routes
 * and no errors. `/<key>` is an entry, `/<database>/<key>` one of another database, which is made when it is first named; a POST to
 * `/<database>/` runs a statement. Its argument is a directory; it prints its address when it serves.
 */
interface Change {
  run(): object
  response: ServerResponse
}

class Entries {
  readonly #database: Database.Database
  readonly #select: Database.Statement
  readonly #upsert: Database.Statement
  readonly #commit: (changes: readonly Change[]) => object[]
  readonly #statements = new Map<string, Database.Statement>()
  #group: Change[] = []

  constructor(file: string) {
    this.#database = new Database(file)
    this.#database.pragma('journal_mode = WAL')
    this.#database.pragma('synchronous = FULL')
    this.#database.exec(
      'CREATE TABLE IF NOT EXISTS kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER) STRICT, WITHOUT ROWID',
    )
    this.#select = this.#database
      .prepare('SELECT value FROM kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)')
      .pluck()
    this.#upsert = this.#database.prepare(
      'INSERT INTO kv VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at',
    )
    this.#commit = this.#database.transaction((changes: readonly Change[]) => changes.map(({ run }) => run()))
  }

  get(key: string, response: ServerResponse): void {
    answer(response, { key, value: this.#select.get(key, Date.now()) })
  }

  put(key: string, value: string, response: ServerResponse): void {
    const run = () => {
      this.#upsert.run(key, value, null)
      return { key }
    }
    this.#change({ run, response })
  }

  sql(sql: string, params: unknown[], response: ServerResponse): void {
    const statement = this.#statements.get(sql) ?? this.#database.prepare(sql)
    this.#statements.set(sql, statement)
    if (statement.reader) answer(response, { rows: statement.all(params) })
    else this.#change({ run: () => statement.run(params), response })
  }

  #change(change: Change): void {
    if (this.#group.push(change) === 1) setImmediate(() => this.#commitGroup())
  }

  #commitGroup(): void {
    const changes = this.#group
    this.#group = []
    const results = this.#commit(changes)
    for (const [i, { response }] of changes.entries()) answer(response, results[i] as object)
  }
}

const databases = new Map<string, Entries>()

function entriesOf(name: string): Entries {
  const found = databases.get(name)
  if (found !== undefined) return found
  const entries = new Entries(path.join(process.argv[2] ?? '', `${name || 'bare'}.db`))
  databases.set(name, entries)
  return entries
}

function change(entries: Entries, key: string, request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(chunks).toString())
    if (request.method === 'POST') entries.sql(body.sql, body.params, response)
    else entries.put(key, body.value, response)
  })
}

function answer(response: ServerResponse, body: object): void {
  const json = JSON.stringify(body)
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(json) })
  response.end(json)
}

const server = createServer((request, response) => {
  const { url = '/' } = request
  const slash = url.lastIndexOf('/')
  const entries = entriesOf(url.slice(1, Math.max(slash, 1)))
  const key = url.slice(slash + 1)
  if (request.method === 'GET') entries.get(key, response)
  else change(entries, key, request, response)
})
server.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }))
})
