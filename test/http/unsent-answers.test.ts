import { once } from 'node:events'
import net from 'node:net'
import { beforeEach, expect, test } from 'vitest'
import { DEFAULT_MEMORY_LIMITS, MemoryBudgets } from '../../src/http/quotas/memory-budgets.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange } from '../support/http/wire.ts'
import { entryAnswer } from '../support/request-bounds.ts'
import { codeOf } from '../support/thrown.ts'

/** An account may leave 20 MB of its answers untaken. Each has 12 MB, of which the system's buffers may take some. */

const bench = Bench.perTest(viaFetch)
let port: number

beforeEach(async () => {
  const entry = entryAnswer(12_000_000)
  const service = { execute: async () => entry } as unknown as CellService
  const memory = { ...DEFAULT_MEMORY_LIMITS, unsentPerAccount: 20_000_000 }
  ;({ port } = await bench.listen({ service, limits: { memory } }))
})

function get(key = bench.key, path = '/v1/databases/{cell}/kv/k'): string {
  const lines = [`GET ${bench.fill(path)} HTTP/1.1`, 'Host: x', `x-api-key: ${key}`]
  return [...lines, 'Connection: close', '', ''].join('\r\n')
}

/** Asks, and takes no more than the beginning. @returns a connection that the node may have ended */
async function hold(): Promise<net.Socket> {
  const socket = net.connect(port, '127.0.0.1').on('error', () => {})
  socket.write(get())
  await Promise.race([once(socket, 'readable'), once(socket, 'close')])
  return socket
}

test('an account that takes none of its answers leaves room for others, and has its own again once they are gone', async () => {
  const held: net.Socket[] = []
  for (let i = 0; i < 6; i++) held.push(await hold())
  const stranger = bench.fill('/v1/databases/{stranger}/kv/k')
  expect(answersIn(await exchange(port, get(bench.strangerKey, stranger)).ended)[0]?.status).toBe(200)
  const whole = await Promise.all(
    held.map(async (socket) => {
      let bytes = 0
      socket.on('data', (data) => {
        bytes += data.length
      })
      if (!socket.closed) await once(socket, 'close')
      return bytes > 12_000_000
    }),
  )
  expect(whole.filter(Boolean).length).toBeGreaterThan(0)
  expect(whole.filter(Boolean).length).toBeLessThan(6)
  expect(answersIn(await exchange(port, get()).ended)[0]?.status).toBe(200)
})

test('nothing is begun for an account whose room is used up', () => {
  const budgets = new MemoryBudgets(DEFAULT_MEMORY_LIMITS)
  budgets.checkUnsent('a')
  budgets.unsent.take('a', DEFAULT_MEMORY_LIMITS.unsentPerAccount)
  expect(codeOf(() => budgets.checkUnsent('a'))).toBe('rate_limited')
  budgets.checkUnsent('b')
  for (const account of ['b', 'c', 'd']) budgets.unsent.take(account, budgets.unsent.shareOf(account))
  expect(codeOf(() => budgets.checkUnsent('d'))).toBe('busy')
  budgets.checkUnsent('e')
  budgets.unsent.release('a', DEFAULT_MEMORY_LIMITS.unsentPerAccount)
  budgets.checkUnsent('a')
})
