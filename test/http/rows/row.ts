import { expect } from 'vitest'
import type { CellErrorCode } from '../../../src/errors.ts'
import type { Ask, Bench, BenchOptions, Reply } from '../../support/http/bench.ts'

/** One line of the contract: what is asked, and the whole answer. */
export interface Row {
  title: string
  /** Sets the stage, in a cell that nothing was done to. */
  before?: Ask[] | ((bench: Bench) => void | Promise<void>)
  ask: Ask
  status: number
  /** The whole body; matchers stand for what differs from run to run. */
  body?: unknown
  /** The error's code and its members beside those that every problem has. */
  problem?: { code: CellErrorCode } & Record<string, unknown>
  headers?: Record<string, unknown>
  /** The row needs a store or a handler of its own. */
  bench?: BenchOptions
}

export const UUID = expect.stringMatching(
  /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
)
export const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
export const COUNT = expect.any(Number)
export const KEY = expect.stringMatching(/^cell_sk_[0-9A-Za-z]{49}$/)
export const VERSION = expect.stringMatching(/^snapshots\/[0-9a-f-]{36}\/backup-\d{8}T\d{6}\.\d{3}Z$/)
export const SHA256 = expect.stringMatching(/^[0-9a-f]{64}$/)
/** A UUID that nothing has. */
export const UNKNOWN_ID = '3f6c2a52-7c5e-4b0a-9f39-1c1f5a0b7e11'

export const CURSOR = expect.stringMatching(/^[\w-]+$/)

/** What every listing says of a bad page size or cursor. */
export function badPages(path: string): Row[] {
  const bad = ['0', '1001', '-1', '1.5', 'ten', '', '1e2', '9'.repeat(30)]
  return [
    ...bad.map(
      (limit): Row => ({
        title: `a page of ${limit || 'an empty limit'}`,
        ask: { method: 'GET', path: `${path}?limit=${limit}` },
        status: 400,
        problem: { code: 'invalid_request', field: 'limit', limit: 1_000 },
      }),
    ),
    ...['x', '%20', '%F0%9F%8C%B2'].map(
      (cursor): Row => ({
        title: `a cursor that is ${cursor}`,
        ask: { method: 'GET', path: `${path}?cursor=${cursor}` },
        status: 400,
        problem: { code: 'invalid_request', field: 'cursor' },
      }),
    ),
    {
      title: 'a query that is not UTF-8',
      ask: { method: 'GET', path: `${path}?cursor=%ff` },
      status: 400,
      problem: { code: 'invalid_request', field: 'cursor' },
    },
  ]
}

/** Checks an answer against its row, and what the contract asks of every answer. */
export function checkReply(reply: Reply, row: Omit<Row, 'title' | 'ask'>): void {
  const { status, json, headers } = reply
  if (row.problem === undefined)
    expect({ status, body: json }).toEqual({ status: row.status, body: row.body })
  else checkProblem(reply, row.status, row.problem)
  for (const [name, value] of Object.entries(row.headers ?? {})) {
    expect({ [name]: headers.get(name) }).toEqual({ [name]: value })
  }
}

export function checkProblem(
  { status, json, headers }: Reply,
  expected: number,
  { code, ...members }: { code: CellErrorCode } & Record<string, unknown>,
): void {
  if (headers.get('content-type') === 'application/json') {
    // Of Hrana, whose clients read no other form.
    const body = { message: expect.stringMatching(/\S/), code: code.toUpperCase() }
    expect({ status, body: json }).toEqual({ status: expected, body })
    return
  }
  expect({ status, body: json }).toEqual({
    status: expected,
    body: {
      type: 'about:blank',
      title: expect.stringMatching(/^[A-Z]/),
      status: expected,
      detail: expect.stringMatching(/\S/),
      code,
      request_id: headers.get('x-request-id'),
      ...members,
    },
  })
}

/** Paths of Hrana, whose errors have a form of their own. */
const HRANA = /\/v[23]\/(pipeline|cursor)(\?|$)/

/** What an error says of itself, in either form. */
export function saidBy({ json }: Pick<Reply, 'json'>): unknown {
  const { detail, message } = json as { detail?: unknown; message?: unknown }
  return detail ?? message
}

/** What is no JSON, by the last segment of its path. */
const OTHER_TYPES: Record<string, string> = {
  changes: 'text/event-stream; charset=utf-8',
  export: 'application/vnd.sqlite3',
}

/** What every answer has, and what none may show. */
export function checkEveryReply(reply: Reply, bench: Bench, ask: Ask): void {
  const { status, headers, text } = reply
  const [, last = ''] = /^\/v1\/databases\/[^/]+\/(\w+)(?:\?|$)/.exec(ask.path) ?? []
  const type = OTHER_TYPES[last] ?? 'application/json'
  const isHrana = HRANA.test(ask.path)
  const problem = isHrana ? 'application/json' : 'application/problem+json'
  expect(headers.get('content-type')).toBe(status < 400 ? type : problem)
  expect(headers.get('cache-control')).toBe('no-store')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(headers.get('x-request-id')).toMatch(/^\S+$/)
  expect(headers.has('retry-after')).toBe(status === 429 || status === 503)
  if (headers.has('retry-after')) expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  if (status < 400) return
  expect(text).not.toContain(bench.directory)
  expect(text).not.toMatch(/cell\.db|catalog\.db|-wal\b|\/tmp\//)
  expect(text).not.toMatch(/cell_sk_[0-9A-Za-z]{6}/)
  if (ask.key) expect(text).not.toContain(ask.key)
}
