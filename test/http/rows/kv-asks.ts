import { expect } from 'vitest'
import type { Ask } from '../../support/http/bench.ts'
import type { Row } from './row.ts'

export const kv = '/v1/databases/{cell}/kv'
export const put = (key: string, body: unknown): Ask => ({ method: 'PUT', path: `${kv}/${key}`, body })
export const get = (key: string): Ask => ({ method: 'GET', path: `${kv}/${key}` })
export const op = (name: string, body: unknown): Ask => ({ method: 'POST', path: `${kv}/ops/${name}`, body })

export const TTL_MAX = 3_153_600_000
export const IN_A_MINUTE = '2026-11-21T02:03:13.123Z'
export const persistent = { ttl_seconds: -1, expires_at: null }

/** What is no time to live, and whether the limit is named: it is where the number is out of range. */
const BAD_TTLS: [raw: string, limit: boolean][] = [
  ['0', true],
  ['-1', true],
  [String(TTL_MAX + 1), true],
  ['1.5', false],
  ['"60"', false],
  ['true', false],
  ['[60]', false],
  ['1e300', false],
  ['99999999999999999999', false],
]

/** A body with a time to live that is none, in each operation that takes one. */
export function badTtls(what: string, field: string, ask: (ttl: string) => Ask): Row[] {
  return BAD_TTLS.map(([ttl, limit]) => ({
    title: `${what} with a TTL of ${ttl}`,
    ask: ask(ttl),
    status: 400,
    problem: { code: 'invalid_ttl', field, ...(limit ? { limit: TTL_MAX } : {}) },
  }))
}

/** Lists of keys, in each operation that takes one. */
export function badKeyLists(name: string): Row[] {
  const many = (count: number) => ({ keys: Array.from({ length: count }, (_, i) => `k${i}`) })
  return [
    {
      title: `${name} without keys`,
      ask: op(name, {}),
      status: 400,
      problem: { code: 'invalid_request', field: 'keys' },
    },
    {
      title: `${name} of a single key`,
      ask: op(name, { keys: 'k' }),
      status: 400,
      problem: { code: 'invalid_request', field: 'keys' },
    },
    {
      title: `${name} of a number`,
      ask: op(name, { keys: ['k', 5] }),
      status: 400,
      problem: { code: 'invalid_request', field: 'keys[1]' },
    },
    {
      title: `${name} of an empty key`,
      ask: op(name, { keys: ['k', ''] }),
      status: 400,
      problem: { code: 'invalid_key', field: 'keys[1]' },
    },
    { title: `${name} of 1,000 keys`, ask: op(name, many(1_000)), status: 200, body: expect.anything() },
    {
      title: `${name} of 1,001 keys`,
      ask: op(name, many(1_001)),
      status: 400,
      problem: { code: 'invalid_request', field: 'keys', limit: 1_000 },
    },
  ]
}
