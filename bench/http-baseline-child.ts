import { spawn } from 'node:child_process'
import fs from 'node:fs'
import type { ServerResponse } from 'node:http'
import type { Readable, Writable } from 'node:stream'
import { type Change, Databases, type Entries } from './baseline-entries.ts'
import { answer, serveBare } from './baseline-server.ts'

/**
 * `http-baseline.ts` with its databases in a child process: the least that a server needs whose tenants' statements must not stop it.
 * The requests that come in one turn of the event loop go to the child in one message. What the child finds in its pipe, it runs, the changes of each
 * database in one transaction, and answers in one message, in the same order. It does nothing but wait for the pipe. Nobody starts
 * it again: it and its server end together. Its arguments are a directory, and `child` for that process.
 */
const [, program = '', directory = '', role] = process.argv
const LENGTH_BYTES = 4
const MESSAGE_BYTES_MAX = 16_777_216

/** Each text with its length before it. */
function encode(texts: readonly string[]): Buffer {
  const lengths = texts.map((text) => Buffer.byteLength(text))
  const buffer = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + length + LENGTH_BYTES, 0))
  let at = 0
  for (const [i, text] of texts.entries()) {
    at = buffer.writeUInt32LE(lengths[i] as number, at)
    at += buffer.write(text, at)
  }
  return buffer
}

/** @returns how many bytes were texts as a whole */
function decode(buffer: Buffer, take: (text: string) => void): number {
  let at = 0
  while (buffer.length - at >= LENGTH_BYTES) {
    const begin = at + LENGTH_BYTES
    const end = begin + buffer.readUInt32LE(at)
    if (end > buffer.length) break
    take(buffer.toString('utf8', begin, end))
    at = end
  }
  return at
}

function serve(): void {
  const child = spawn(process.execPath, [program, directory, 'child'], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.once('exit', () => process.exit(1))
  const input = child.stdin as Writable
  const asked: ServerResponse[] = []
  let turn: string[] = []
  const send = () => {
    input.write(encode(turn))
    turn = []
  }
  serveBare((method, url, body, response) => {
    asked.push(response)
    if (turn.push(`${method} ${url} ${body}`) === 1) setImmediate(send)
  })
  let rest: Buffer = Buffer.alloc(0)
  ;(child.stdout as Readable).on('data', (chunk: Buffer) => {
    const received = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    rest = received.subarray(decode(received, (json) => answer(asked.shift() as ServerResponse, json)))
  })
}

function work(): void {
  const databases = new Databases(directory)
  const buffer = Buffer.alloc(MESSAGE_BYTES_MAX)
  let held = 0
  for (;;) {
    const bytes = fs.readSync(0, buffer, held, buffer.length - held, null)
    if (bytes === 0) return
    held += bytes
    const results: object[] = []
    const changed = new Map<Entries, number[]>()
    const used = decode(buffer.subarray(0, held), (text) => {
      const afterMethod = text.indexOf(' ')
      const afterUrl = text.indexOf(' ', afterMethod + 1)
      const [entries, result] = databases.run(
        text.slice(0, afterMethod),
        text.slice(afterMethod + 1, afterUrl),
        text.slice(afterUrl + 1),
      )
      const i = results.push(result) - 1
      if (typeof result !== 'function') return
      const own = changed.get(entries)
      if (own === undefined) changed.set(entries, [i])
      else own.push(i)
    })
    buffer.copyWithin(0, used, held)
    held -= used
    for (const [entries, own] of changed) {
      const done = entries.commit(own.map((i) => results[i] as Change))
      for (const [j, i] of own.entries()) results[i] = done[j] as object
    }
    if (results.length > 0) writeAll(encode(results.map((result) => JSON.stringify(result))))
  }
}

function writeAll(bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(1, bytes, at)
}

if (role === 'child') work()
else serve()
