import { once } from 'node:events'
import type { Attack } from './attack.ts'
import { pause, repeat, type Tenant } from './tenant.ts'

const TEN_MB = JSON.stringify({
  sql: "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 10) SELECT printf('%*c', 1000000, 'x') FROM r",
})
/** Each byte becomes six in JSON. */
const CONTROLS = JSON.stringify({
  sql: "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 10) SELECT replace(printf('%*c', 300000, 'x'), 'x', char(1)) FROM r",
})

/** What a reverse proxy is there for. */
export const connectionAttacks: Record<string, Attack> = {
  '1 pipelined 10 MB answers, never read': async (tenant) => {
    const [cell] = (await tenant.newCells(1)) as [string]
    const request = tenant.raw('POST', `/databases/${cell}/sql`, TEN_MB)
    return (signal) => repeat(tenant, signal, 1, () => sendUnread(tenant, request.repeat(120), signal))
  },
  '1 a 10 MB answer on each of 60 connections, never read': async (tenant) => {
    const cells = await tenant.newCells(8)
    return (signal) =>
      repeat(tenant, signal, 60, (turn) => {
        const body = turn % 2 === 0 ? TEN_MB : CONTROLS
        const request = tenant.raw('POST', `/databases/${cells[turn % 8]}/sql`, body)
        return sendUnread(tenant, request, signal)
      })
  },
  '1 2,500 tiny requests at once on each of 200 connections': async (tenant) => {
    const requests = Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2_500))
    return (signal) => repeat(tenant, signal, 200, () => sendAndWait(tenant, requests, signal))
  },
  '8 800 bodies one byte short': async (tenant) => {
    const [cell] = (await tenant.newCells(1)) as [string]
    const body = JSON.stringify({ value: 'x'.repeat(2_000_000) }).slice(0, -1)
    const request = Buffer.from(tenant.raw('PUT', `/databases/${cell}/kv/k`, body, body.length + 1))
    return (signal) => repeat(tenant, signal, 800, () => sendAndWait(tenant, request, signal))
  },
  '8 800 small bodies one byte short': async (tenant) => {
    const [cell] = (await tenant.newCells(1)) as [string]
    const body = JSON.stringify({ value: 'x'.repeat(16_000) }).slice(0, -1)
    const request = Buffer.from(tenant.raw('PUT', `/databases/${cell}/kv/k`, body, body.length + 1))
    return (signal) => repeat(tenant, signal, 800, () => sendAndWait(tenant, request, signal))
  },
  '8 200 bodies in chunks of one byte': async (tenant) => {
    const [cell] = (await tenant.newCells(1)) as [string]
    const head = tenant.raw('PUT', `/databases/${cell}/kv/k`, '')
    const chunked = head.replace(/Content-Length: 0/i, 'Transfer-Encoding: chunked')
    const request = Buffer.from(`${chunked}${'1\r\nx\r\n'.repeat(60_000)}0\r\n\r\n`)
    return (signal) => repeat(tenant, signal, 200, () => sendAndWait(tenant, request, signal))
  },
  '8 half-open requests, opened again and again': async (tenant) => {
    const half = tenant.raw('POST', '/databases', '').slice(0, 60)
    return (signal) =>
      repeat(tenant, signal, 800, async () => {
        const socket = tenant.connect()
        socket.write(half)
        await pause(1_000, signal)
        socket.destroy()
        tenant.count('half-open')
      })
  },
}

/** Sends, and takes nothing of the answers until the server hangs up. */
async function sendUnread(tenant: Tenant, requests: string, signal: AbortSignal): Promise<void> {
  const socket = tenant.connect()
  socket.pause()
  socket.write(requests)
  await Promise.race([once(socket, 'close'), pause(5_000, signal)])
  if (!signal.aborted) tenant.count(socket.destroyed ? 'hung up' : 'held open')
  socket.destroy()
}

/** Sends what never becomes a whole request, and waits for what the server says. */
async function sendAndWait(tenant: Tenant, request: Buffer, signal: AbortSignal): Promise<void> {
  const socket = tenant.connect()
  socket.write(request)
  const answered = once(socket, 'data', { signal }).catch(() => [undefined])
  const closed = once(socket, 'close').then(() => [undefined])
  const [answer] = await Promise.race([answered, closed])
  if (!signal.aborted) tenant.count(answer === undefined ? 'hung up' : String(answer).slice(9, 12))
  if (answer === undefined) await pause(50, signal)
  socket.destroy()
}
