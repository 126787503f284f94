import { type ChildProcess, spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import Database from 'better-sqlite3'

/**
 * What a server of entries can't do without if it has many databases, in processes of their own, where a tenant's statement can be
 * ended. The puts of one turn of the event loop go to their worker as one line of JSON, and are answered when it says that they are
 * on disk. Those of one database share a transaction. Reads go the same way; nobody mixes the two. What the transactions added to the write-ahead logs is read back, appended to
 * one log, and flushed there; all that would read that log after a crash is left out. `/<database>/<key>` is an entry.
 *
 * With `contract` it also has what docs/http-api.md and the promises ask of each request, and of that the least: a key that is looked up
 * by its hash, before and after a body; the database's owner; a body whose fields are checked; an entry's version, and whether it
 * is new; the headers of an answer; and results that leave the worker before the COMMIT, so that they outlive it. Limits, budgets,
 * deadlines, errors, backups and everything else are left out.
 *
 * Its arguments are a directory, and what it is.
 */
const [, , directory = '', mode = 'bare', role] = process.argv
const hasContract = mode === 'contract'
const WORKERS = 2
const LOG_BYTES = 67_108_864
const WAL_HEADER_BYTES = 32
const PAGE_BYTES = 4_096
const CHECKPOINT_PAGES = 1_000
const BODY_BYTES_MAX = 2_097_152
const KEY_BYTES_MAX = 1_024
const API_KEY = 'cell_sk_bench'

interface Operation {
  database: string
  key: string
  /** What is put; without one, the entry is read. */
  value?: string
}

interface Done {
  key: string
  created?: boolean
  value?: string
  version?: string
}

interface Row {
  value: string
  version: bigint | null
}

/** One database of a worker. */
class Entries {
  readonly #database: Database.Database
  readonly #begin: Database.Statement
  readonly #commit: Database.Statement
  readonly #find: Database.Statement
  readonly #read: Database.Statement
  readonly #upsert: Database.Statement
  readonly #wal: number
  #readTo = WAL_HEADER_BYTES
  #version = BigInt(Date.now()) << 20n

  constructor(file: string) {
    this.#database = new Database(file)
    this.#database.pragma('journal_mode = WAL')
    this.#database.pragma('synchronous = NORMAL')
    this.#database.pragma('wal_autocheckpoint = 0')
    this.#database.exec(
      'CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER, version INTEGER) STRICT, WITHOUT ROWID',
    )
    this.#begin = this.#database.prepare('BEGIN IMMEDIATE')
    this.#commit = this.#database.prepare('COMMIT')
    this.#find = this.#database.prepare('SELECT 1 FROM kv WHERE key = ?').pluck()
    this.#read = this.#database
      .prepare('SELECT value, version FROM kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)')
      .safeIntegers()
    this.#upsert = this.#database.prepare(
      'INSERT INTO kv VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at, version = excluded.version',
    )
    this.#wal = fs.openSync(`${file}-wal`, 'r')
  }

  get({ key }: Operation): Done {
    const { value, version } = this.#read.get(key, Date.now()) as Row
    return hasContract ? { key, value, version: String(version) } : { key, value }
  }

  /** A commit has to follow. */
  run(puts: readonly Operation[]): Done[] {
    this.#begin.run()
    return puts.map((put) => this.#put(put))
  }

  #put({ key, value }: Operation): Done {
    if (!hasContract) {
      this.#upsert.run(key, value, null, null)
      return { key }
    }
    const created = this.#find.get(key) === undefined
    const version = ++this.#version
    this.#upsert.run(key, value, null, version)
    return { key, created, version: version.toString() }
  }

  commit(): void {
    this.#commit.run()
  }

  /** Reads what was added since the last time. @returns its bytes */
  readAdded(buffer: Buffer, at: number): number {
    const bytes = fs.readSync(this.#wal, buffer, at, buffer.length - at, this.#readTo)
    this.#readTo += bytes
    return bytes
  }

  checkpointIfLong(): void {
    if (this.#readTo < CHECKPOINT_PAGES * PAGE_BYTES) return
    this.#database.pragma('wal_checkpoint(TRUNCATE)')
    this.#readTo = WAL_HEADER_BYTES
  }
}

/** The log of all databases of a worker. */
class Log {
  readonly #file: number
  readonly #memory = Buffer.alloc(4_194_304)
  #at = 0

  constructor(file: string) {
    this.#file = fs.openSync(file, 'w')
    fs.writeSync(this.#file, Buffer.alloc(LOG_BYTES))
    fs.fsyncSync(this.#file)
  }

  store(changed: readonly Entries[]): void {
    let bytes = 0
    for (const each of changed) bytes += each.readAdded(this.#memory, bytes)
    if (this.#at + bytes > LOG_BYTES) this.#at = 0
    fs.writeSync(this.#file, this.#memory, 0, bytes, this.#at)
    fs.fdatasyncSync(this.#file)
    this.#at += bytes
    for (const each of changed) each.checkpointIfLong()
  }
}

function work(): void {
  const databases = new Map<string, Entries>()
  const log = new Log(path.join(directory, 'log'))
  const open = (name: string) => {
    const found = databases.get(name) ?? new Entries(path.join(directory, `${name}.db`))
    databases.set(name, found)
    return found
  }
  const tell = (message: object) => fs.writeSync(4, `${JSON.stringify(message)}\n`)
  eachLine(new net.Socket({ fd: 3, readable: true, writable: false }), (line) => {
    const batch = JSON.parse(line) as Operation[][]
    const used = batch.map(([first]) => open((first as Operation).database))
    if (batch[0]?.[0]?.value === undefined) {
      tell({
        done: batch.flatMap((reads, i) => reads.map((read) => (used[i] as Entries).get(read))),
        isOver: true,
      })
      return
    }
    const done = batch.flatMap((puts, i) => (used[i] as Entries).run(puts))
    if (hasContract) tell({ done })
    for (const each of used) each.commit()
    log.store(used)
    tell(hasContract ? { isOver: true } : { done, isOver: true })
  })
}

class Worker {
  readonly #input: Writable
  #waiting = new Map<string, [Operation, Answer][]>()
  #underWay: Answer[] = []
  #done: Done[] = []

  constructor({ stdio }: ChildProcess) {
    this.#input = stdio[3] as Writable
    eachLine(stdio[4] as Readable, (line) => {
      const { done, isOver } = JSON.parse(line) as { done?: Done[]; isOver?: true }
      if (done !== undefined) this.#done = done
      if (isOver) this.#answer()
    })
  }

  run(operation: Operation, answer: Answer): void {
    const own = this.#waiting.get(operation.database)
    if (own !== undefined) own.push([operation, answer])
    else {
      this.#waiting.set(operation.database, [[operation, answer]])
      if (this.#waiting.size === 1) setImmediate(() => this.#next())
    }
  }

  #next(): void {
    if (this.#underWay.length > 0 || this.#waiting.size === 0) return
    const batch = [...this.#waiting.values()]
    this.#underWay = batch.flatMap((own) => own.map(([, answer]) => answer))
    this.#waiting = new Map()
    this.#input.write(`${JSON.stringify(batch.map((own) => own.map(([operation]) => operation)))}\n`)
  }

  #answer(): void {
    const answers = this.#underWay
    const done = this.#done
    this.#underWay = []
    this.#next()
    for (const [i, answer] of answers.entries()) answer(done[i] as Done)
  }
}

type Answer = (done: Done) => void

const accounts = new Map([[hashOf(API_KEY), 'account']])
const ownerOf = new Map(Array.from({ length: 1_000 }, (_, i) => [String(i), 'account']))
const ROUTE = /^\/v1\/databases\/([\w-]{1,36})\/kv\/([^/?]+)$/
const FIELDS = new Set(['value', 'ttl_seconds', 'keep_ttl'])

function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

/** Refuses with the status that it throws. */
function check(allowed: boolean, status: number): asserts allowed {
  if (!allowed) throw status
}

function accountOf({ headers }: IncomingMessage): string {
  const account = accounts.get(hashOf(String(headers['x-api-key'] ?? '')))
  check(account !== undefined, 401)
  return account
}

function place(request: IncomingMessage): Operation {
  if (!hasContract) {
    const [, database = '', key = ''] = request.url?.split('/') ?? []
    return { database, key }
  }
  const account = accountOf(request)
  const [, database = '', encoded = ''] = ROUTE.exec(request.url ?? '') ?? []
  check(encoded !== '', 404)
  if (request.method === 'PUT') {
    check(request.headers['content-type'] === 'application/json', 415)
    check(Number(request.headers['content-length']) <= BODY_BYTES_MAX, 413)
  }
  check(ownerOf.get(database) === account, 404)
  const key = decodeURIComponent(encoded)
  check(Buffer.byteLength(key) <= KEY_BYTES_MAX && !key.includes('\0') && key.isWellFormed(), 400)
  return { database, key }
}

function checkedValue(request: IncomingMessage, text: string): string {
  const body = JSON.parse(text) as { value: string }
  if (!hasContract) return body.value
  accountOf(request)
  check(body !== null && typeof body === 'object' && !Array.isArray(body), 400)
  for (const name of Object.keys(body)) check(FIELDS.has(name), 400)
  check(typeof body.value === 'string' && body.value.isWellFormed(), 400)
  return body.value
}

function answer(request: IncomingMessage, response: ServerResponse, done: Done): void {
  const json = JSON.stringify(hasContract ? { ...done, ttl_seconds: -1, expires_at: null } : done)
  const length = Buffer.byteLength(json)
  const headers = { 'Content-Type': 'application/json', 'Content-Length': length }
  if (!hasContract) response.writeHead(200, headers)
  else
    response.writeHead(200, {
      ...headers,
      'Cache-Control': 'no-store',
      'X-Content-Type-Options': 'nosniff',
      'X-Request-Id': request.headers['x-request-id'] ?? randomUUID(),
      ETag: `"${done.version}"`,
    })
  response.end(json)
}

function serve(): void {
  const workers = Array.from({ length: WORKERS }, (_, i) => {
    const own = path.join(directory, `worker-${i}`)
    fs.mkdirSync(own, { recursive: true })
    const args = [process.argv[1] ?? '', own, mode, 'worker']
    return new Worker(
      spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'pipe'] }),
    )
  })
  const refuse = (response: ServerResponse, status: unknown) =>
    response.writeHead(typeof status === 'number' ? status : 400).end()
  const server = createServer((request, response) => {
    const run = (operation: Operation) => {
      const worker = workers[Number.parseInt(operation.database, 10) % WORKERS] as Worker
      worker.run(operation, (done) => answer(request, response, done))
    }
    try {
      const operation = place(request)
      if (request.method === 'GET') {
        run(operation)
        return
      }
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        try {
          run({ ...operation, value: checkedValue(request, Buffer.concat(chunks).toString()) })
        } catch (status) {
          refuse(response, status)
        }
      })
    } catch (status) {
      refuse(response, status)
    }
  })
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    console.log(JSON.stringify({ address: `http://127.0.0.1:${port}`, first_key: { key: API_KEY } }))
  })
}

function eachLine(input: Readable, take: (line: string) => void): void {
  let rest = ''
  input.setEncoding('utf8')
  input.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) take(line)
  })
}

if (role === 'worker') work()
else serve()
