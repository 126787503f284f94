import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Load } from '../../http-load.ts'

/** A request that is made over and over; in path and body `$k` and `$n` as in a {@link Load}. */
export interface Asked {
  method: Load['method']
  path: string
  /** By default the address. */
  host?: string
  body?: string
}

/** A server in a process of its own, as durable as it can be: an answered change is on disk. */
export interface HttpServer {
  pid: number
  port: number
  /** Lines, each with its CRLF. */
  headers: string
  /** A database that takes entries. @returns its name */
  createDatabase(): Promise<string>
  get(database: string, key: string): Asked
  put(database: string, key: string): Asked
  sql(database: string, sql: string, params: readonly unknown[]): Asked
  stop(): Promise<unknown>
  /** What its process has said last of what is wrong with it; empty if nothing. */
  complaint?(): string
}

export interface HttpPeer {
  version(): string
  /** Why it can't have a thousand databases. */
  single?: string
  /** A second time on the same directory, what was stored is there. */
  start(directory: string): Promise<HttpServer>
}

/** 100 bytes, with the number that `$n` becomes. */
export const VALUE = `${'v'.repeat(92)}$n`

/** JSON in which `$k` is a number. */
export function json(value: unknown): string {
  return JSON.stringify(value).replaceAll('"$k"', '$k')
}

const STARTS_MAX = 600
const BETWEEN_STARTS_MS = 50

/** A program that listens on a port that it was told. */
export async function startProgram(
  program: string,
  args: readonly string[],
  port: number,
  cwd?: string,
): Promise<{ pid: number; stop(): Promise<unknown> }> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], cwd })
  let said = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(-500)
  })
  for (let tries = 0; !(await listens(port)); tries++) {
    if (child.exitCode !== null || tries === STARTS_MAX) throw new Error(`it does not start: ${said}`)
    await sleep(BETWEEN_STARTS_MS)
  }
  return { pid: child.pid as number, stop: () => stopped(child) }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ port, host: '127.0.0.1' })
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

const STOP_MS_MAX = 10_000

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX)
  await exited
  clearTimeout(late)
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** Asks once, and gives the answer's text. `fetch()` would not send a `Host` of another name. */
export async function ask(server: HttpServer, asked: Asked): Promise<string> {
  const { method, path, host, body = '' } = asked
  const lines = server.headers.split('\r\n').filter(Boolean)
  const text = numbered(body)
  const headers = {
    ...Object.fromEntries(lines.map((line) => line.split(': '))),
    ...(host === undefined ? {} : { host }),
    ...(method === 'GET'
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  }
  const address = { host: '127.0.0.1', port: server.port, agent }
  const sent = request({ ...address, method, path: numbered(path), headers }).end(text)
  let response: IncomingMessage
  try {
    ;[response] = (await once(sent, 'response')) as [IncomingMessage]
  } catch (error) {
    // Servers close connections that rest for long, as between turns.
    if (sent.reusedSocket && (error as NodeJS.ErrnoException).code === 'ECONNRESET')
      return await ask(server, asked)
    throw error
  }
  const answer = Buffer.concat(await response.toArray()).toString()
  const { statusCode = 0 } = response
  if (statusCode >= 300) throw new Error(`${method} ${path} answered ${statusCode}: ${answer.slice(0, 200)}`)
  return answer
}

let numbers = 0

function numbered(text: string): string {
  return text.replaceAll('$k', '7').replaceAll('$n', () => String(numbers++))
}
