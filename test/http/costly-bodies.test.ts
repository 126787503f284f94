import { expect, test, vi } from 'vitest'
import { SqlTokens } from '../../src/engine/sql-policy/sql-lexer.ts'
import { Application } from '../../src/http/core/application.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

/** Lengths and counts are checked first: what a body costs does not grow with what it holds too much of. */

const bench = Bench.perTest(viaFetch)
/** Sends a body that was parsed before, such as one that counts what is read of it. */
async function send(path: string, value: unknown): Promise<{ status: number; code: string }> {
  const response = await new Application(bench.store, {}).handle({
    method: 'POST',
    path: bench.fill(`/v1/databases/{cell}/${path}`),
    query: '',
    mount: '',
    contentLength: 2_000_000,
    signal: new AbortController().signal,
    read: undefined,
    headers: {},
    header: (name) => ({ 'x-api-key': bench.key, 'content-type': 'application/json' })[name],
    stream: () => {
      throw new Error('no stream')
    },
    readBody: async () => ({ kind: 'parsed', value }),
  })
  return { status: response.status, code: JSON.parse(String(response.body)).code }
}

/** Counts the elements or members that are read. */
function counted<T extends object>(target: T): { value: T; reads: () => number } {
  const read = new Set<PropertyKey>()
  const value = new Proxy(target, {
    get(from, name, receiver) {
      if (typeof name === 'string' && name !== 'length' && Object.hasOwn(from, name)) read.add(name)
      return Reflect.get(from, name, receiver)
    },
  })
  return { value, reads: () => read.size }
}

test.each([
  ['kv/ops/mset', 'entries', {}],
  ['kv/ops/mget', 'keys', 1],
  ['kv/ops/ttl', 'keys', 1],
  ['kv/ops/delete', 'keys', 1],
])('no element of a list with too many is looked at: %s', async (path, field, element) => {
  const { value, reads } = counted(Array(5_000).fill(element))
  expect(await send(path, { [field]: value })).toEqual({ status: 400, code: 'invalid_request' })
  expect(reads()).toBe(0)
})

test.each([
  ['kv/ops/mset', 'entries', {}],
  ['kv/ops/mget', 'keys', 1],
])('no element after the first wrong one is looked at: %s', async (path, field, element) => {
  const { value, reads } = counted(Array(1_000).fill(element))
  expect(await send(path, { [field]: value })).toEqual({ status: 400, code: 'invalid_request' })
  expect(reads()).toBe(1)
})

test('no parameter of a list with too many is looked at, and no named one', async () => {
  const list = counted(Array(32_767).fill(1))
  const names = counted(Object.fromEntries(Array.from({ length: 32_767 }, (_, i) => [`p${i}`, 1])))
  for (const { value, reads } of [list, names]) {
    const refused = { status: 400, code: 'invalid_parameter' }
    expect(await send('sql', { sql: 'SELECT 1', params: value })).toEqual(refused)
    expect(await send('batch', { operations: [{ sql: 'SELECT 1', params: value }] })).toEqual(refused)
    expect(reads()).toBe(0)
  }
})

test('no word of SQL that is too long is read', async () => {
  const read = vi.spyOn(SqlTokens.prototype, 'at')
  const sql = `WITH a AS (${'('.repeat(200_000)}`
  expect(await send('sql', { sql })).toEqual({ status: 413, code: 'sql_too_long' })
  expect(await send('batch', { operations: [{ sql }] })).toEqual({ status: 413, code: 'sql_too_long' })
  expect(read).not.toHaveBeenCalled()
})
