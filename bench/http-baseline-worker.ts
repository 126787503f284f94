import { type ChildProcess, spawn } from 'node:child_process'
import fs from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import Database from 'better-sqlite3'

/**
 * What a server of entries can't do without if the database is in a process of its own, where a tenant's statement can be ended: the
 * changes of one turn of the event loop go to a worker as one line of JSON, which makes a transaction of them, and are answered when
 * it says that this is on disk. Keys, routes and errors are left out, as in `http-baseline.ts`. Its argument is a directory.
 */
const [, , directory = '', role] = process.argv
interface Put {
  key: string
  value: string
}

function work(): void {
  const database = new Database(path.join(directory, 'bare.db'))
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.exec(
    'CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER) STRICT, WITHOUT ROWID',
  )
  const upsert = database.prepare(
    'INSERT INTO kv VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at',
  )
  const commit = database.transaction((puts: readonly Put[]) => {
    for (const { key, value } of puts) upsert.run(key, value, null)
  })
  eachLine(new net.Socket({ fd: 3, readable: true, writable: false }), (line) => {
    const puts = JSON.parse(line) as Put[]
    commit(puts)
    fs.writeSync(4, `${JSON.stringify(puts.map(({ key }) => ({ key })))}\n`)
  })
}

function serve(): void {
  const worker = new Worker(
    spawn(process.execPath, [process.argv[1] ?? '', directory, 'worker'], {
      stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'pipe'],
    }),
  )
  const server = createServer((request, response) => {
    const key = request.url?.slice(1) ?? ''
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { value } = JSON.parse(Buffer.concat(chunks).toString()) as { value: string }
      worker.put({ key, value }, response)
    })
  })
  server.listen(0, '127.0.0.1', () => {
    console.log(JSON.stringify({ address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }))
  })
}

class Worker {
  readonly #input: Writable
  #waiting: [Put, ServerResponse][] = []
  #underWay: ServerResponse[] = []

  constructor({ stdio }: ChildProcess) {
    this.#input = stdio[3] as Writable
    eachLine(stdio[4] as Readable, (line) => {
      const responses = this.#underWay
      this.#underWay = []
      this.#next()
      for (const [i, body] of (JSON.parse(line) as object[]).entries())
        answer(responses[i] as ServerResponse, body)
    })
  }

  put(put: Put, response: ServerResponse): void {
    if (this.#waiting.push([put, response]) === 1) setImmediate(() => this.#next())
  }

  #next(): void {
    if (this.#underWay.length > 0 || this.#waiting.length === 0) return
    const puts = this.#waiting.map(([put]) => put)
    this.#underWay = this.#waiting.map(([, response]) => response)
    this.#waiting = []
    this.#input.write(`${JSON.stringify(puts)}\n`)
  }
}

function answer(response: ServerResponse, body: object): void {
  const json = JSON.stringify(body)
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(json) })
  response.end(json)
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
