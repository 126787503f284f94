import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { type Ask, Bench } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES, type TransportFactory } from '../support/http/transports.ts'
import { AREAS } from './rows/areas.ts'
import { checkEveryReply, checkReply, type Row } from './rows/row.ts'

describe.each(TRANSPORTS_AND_NODES)('the contract, through %s', (_name, transport) => {
  let shared: Bench
  beforeAll(async () => {
    shared = await Bench.open(transport)
  })
  afterAll(() => shared.close())

  describe.each(AREAS)('%s', (_area, rows) => {
    test.each(rows)('$title: $ask.method is answered $status', async (row) => {
      if (row.bench === undefined) {
        shared.newCell()
        // An account may restore no more often than that.
        shared.clock.pass(10_000)
        await play(row, shared)
      } else await playAlone(row, transport)
    })
  })
})

test('every route has a row that succeeds', () => {
  const succeeded = AREAS.flatMap(([, rows]) => rows).filter(({ status }) => status < 400)
  const missing = ROUTES.filter(([method, path]) => {
    const shape = new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}(\\?|$)`)
    return !succeeded.some(({ ask }) => ask.method === method && shape.test(ask.path))
  })
  expect(missing.map(([method, path]) => `${method} ${path}`)).toEqual([
    'GET /healthz',
    'GET /openapi.json',
    'GET /v1/status',
    'DELETE /v1/api-keys/{key_id}',
    'GET /v1/databases/{id}/export',
    'POST /v1/databases/{id}/v3/cursor',
    'GET /v1/databases/{id}/changes',
    'GET /v1/databases/{id}/retention',
    'POST /v1/databases/{id}/backups/pin',
    'POST /v1/databases/{id}/backups/unpin',
    'GET /v1/databases/{id}/restores/{restore_id}',
    'DELETE /v1/databases/{id}/restores/{restore_id}',
  ])
})

async function playAlone(row: Row, transport: TransportFactory): Promise<void> {
  const bench = await Bench.open(transport, row.bench)
  try {
    await play(row, bench)
  } finally {
    await bench.close()
  }
}

async function play(row: Row, bench: Bench): Promise<void> {
  if (typeof row.before === 'function') await row.before(bench)
  else for (const ask of row.before ?? []) await prepare(ask, bench)
  const reply = await bench.send(row.ask)
  checkEveryReply(reply, bench, row.ask)
  checkReply(reply, row)
  expect(bench.logged).toEqual([])
}

async function prepare(ask: Ask, bench: Bench): Promise<void> {
  const { status, text } = await bench.send(ask)
  if (status >= 300) throw new Error(`Setting the stage failed: ${ask.method} ${ask.path}: ${text}`)
}
