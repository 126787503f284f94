import type { Attack } from './attack.ts'
import { repeat } from './tenant.ts'

const BODY_BYTES = 2_097_152
const LANES = 4

export const bodyAttacks: Record<string, Attack> = {
  '2 mset of {}': bodies('/kv/ops/mset', `{"entries":[${fill('{}')}]}`),
  '2 mget of numbers': bodies('/kv/ops/mget', `{"keys":[${fill('1')}]}`),
  '2 mget of empty keys': bodies('/kv/ops/mget', `{"keys":[${fill('""')}]}`),
  '2 params of 16 digits': bodies('/sql', `{"sql":"SELECT 1","params":[${fill('1234567890123456')}]}`),
  '2 a text of 16 digits': bodies(
    '/sql',
    `{"sql":"SELECT 1","params":["${'1234567890123456 '.repeat(BODY_BYTES / 17 - 10)}"]}`,
  ),
  '2 150,000 named params': bodies(
    '/sql',
    `{"sql":"SELECT 1","params":{${Array.from({ length: 150_000 }, (_, i) => `"p${i}":1`).join(',')}}}`,
  ),
  '2 32,766 named params of 16 digits': bodies(
    '/sql',
    `{"sql":"SELECT 1","params":{${Array.from({ length: 32_766 }, (_, i) => `"p${i}":1234567890123456`).join(',')}}}`,
  ),
  '2 a long text of SQL': bodies('/sql', `{"sql":"SELECT ${'1,'.repeat(BODY_BYTES / 2 - 20)}1"}`),
  '2 a batch of {}': bodies('/batch', `{"operations":[${fill('{}')}]}`),
  '2 a batch of many params': bodies(
    '/batch',
    JSON.stringify({
      operations: Array.from({ length: 1_000 }, () => ({
        sql: 'SELECT 1',
        params: Array.from({ length: 120 }, () => 1234567890123456),
      })),
    }),
  ),
  '2 a batch of many numbers': bodies(
    '/batch',
    JSON.stringify({
      operations: Array.from({ length: 60 }, () => ({ sql: 'SELECT 1', params: Array(16_000).fill(1) })),
    }),
  ),
  '2 mset of 1,000 values': bodies(
    '/kv/ops/mset',
    JSON.stringify({
      entries: Array.from({ length: 1_000 }, (_, i) => ({ key: `k${i}`, value: '\u0001'.repeat(320) })),
    }),
  ),
  '2 deep JSON': bodies('/sql', `{"sql":"SELECT 1","params":[${'['.repeat(900_000)}${']'.repeat(900_000)}]}`),
  '2 a wide object, with an idempotency key': async (tenant) => {
    const body = `{"a":[${fill('{}')}]}`
    return (signal) =>
      repeat(tenant, signal, LANES, (turn) =>
        tenant.ask('POST', '/databases', body, { 'idempotency-key': `k${turn % 100}` }),
      )
  },
  '8 queued mget, ttl and delete': async (tenant) => {
    const cells = await tenant.newCells(8)
    const keys = Array.from({ length: 1_000 }, (_, i) => `key-${i}`)
    const body = JSON.stringify({ keys })
    const ops = ['mget', 'ttl', 'delete']
    return (signal) =>
      repeat(tenant, signal, 400, (turn) =>
        tenant.ask('POST', `/databases/${cells[turn % 8]}/kv/ops/${ops[turn % 3]}`, body),
      )
  },
}

function bodies(path: string, body: string): Attack {
  return async (tenant) => {
    const cells = await tenant.newCells(4)
    return (signal) =>
      repeat(tenant, signal, LANES, (turn) =>
        tenant.ask('POST', `/databases/${cells[turn % 4]}${path}`, body),
      )
  }
}

/** As many of them as a body can hold. */
function fill(value: string): string {
  const count = Math.floor((BODY_BYTES - 100) / (value.length + 1))
  return `${`${value},`.repeat(count - 1)}${value}`
}
