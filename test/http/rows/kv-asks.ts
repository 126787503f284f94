import { expect } from 'vitest'
import type { Ask } from '../../support/http/bench.ts'
import type { Row } from './row.ts'

export const kv = '/v1/databases/{cell}/kv'
export const put = (key: string, body: unknown): Ask => ({ method: 'PUT', path: `${kv}/${key}`, body })
export const get = (key: string): Ask => ({ method: 'GET', path: `${kv}/${key}` })
export const op = (name: string, body: unknown): Ask => ({ method: 'POST', path: `${kv}/ops/${name}`, body })

const TTL_MAX = 3_153_600_000
export const IN_A_MINUTE = '2026-11-21T02:03:13.123Z'
export const ENTRY_VERSION = expect.stringMatching(/^[1-9]\d*$/)
export const persistent = { version: ENTRY_VERSION, ttl_seconds: -1, expires_at: null }

/** An error of each kind in a time to live: out of its range, not whole, of another type, and too large for a double. */
const BAD_TTLS: [raw: string, limit: boolean][] = [
  ['0', true],
  ['1.5', false],
  ['"60"', false],
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

/** A list of keys that is none, in each operation that takes one. */
export function badKeyLists(name: string): Row[] {
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
  ]
}
