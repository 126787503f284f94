import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { ArgumentError, blob, type Client, createClient, integer, real } from '../../src/client/index.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { temporaryStore } from '../../src/testing/index.ts'
import {
  type DocumentedArgument,
  documentedArguments,
  documentedOperations,
} from '../support/client/documented-arguments.ts'

/** What a call is given is checked before anything is sent: nothing is dropped, rounded or taken for something else. */

const id = 'x'
let sent = 0
beforeEach(() => {
  sent = 0
})
const stub = createClient({
  baseUrl: 'http://cells.test',
  retries: 0,
  async fetch() {
    sent++
    return new Response()
  },
})

/** A client of a store, and a new cell in it. */
async function served(): Promise<{ cells: Client; id: string }> {
  const temporary = await temporaryStore()
  onTestFinished(() => temporary.close())
  const { key } = temporary.store.apiKeys.create(temporary.store.accounts.create().id)
  const handler = createHandler(temporary.store)
  const fetch = (url: string, init: RequestInit) => handler(new Request(url, init))
  const cells = createClient({ baseUrl: 'http://cells.test', apiKey: key, fetch })
  return { cells, id: (await cells.createCell()).id }
}

/** Calls a method; `changes` does nothing before its first change is asked for. */
const call = async (name: string, ...given: [args?: object, options?: object]) => {
  const answer = await (stub as unknown as Record<string, (...given: unknown[]) => unknown>)[name]?.(...given)
  return name === 'changes' ? await (answer as AsyncGenerator).next() : answer
}

const refused = async (promise: unknown) => {
  const error = await Promise.resolve(promise).catch((error: unknown) => error)
  expect(error).toBeInstanceOf(ArgumentError)
  expect(error).toBeInstanceOf(TypeError)
  expect(sent).toBe(0)
  return error as ArgumentError
}

describe('values that JSON has no form for are refused with their path', () => {
  test.each<[unknown, RegExp]>([
    [2 ** 60, /pass integer\(…\), or real\(…\)/],
    [-(2 ** 63), /pass integer/],
    [Number.NaN, /NaN/],
    [undefined, /is undefined/],
    [() => 1, /a function/],
    [Symbol('x'), /a symbol/],
    [5n, /pass integer\(…\)/],
    [new Uint8Array(1), /pass blob\(…\)/],
    [new Date(0), /a Date/],
    [{ type: 'real', value: Number.NaN }, /NaN/],
    ['\ud800', /lone surrogate/],
  ])('as a parameter: %s', async (value, why) => {
    const { code, field, message } = await refused(call('sql', { id, sql: 'SELECT ?', params: [1, value] }))
    expect([code, field]).toEqual(['invalid_parameter', 'params[1]'])
    expect(message).toMatch(why)
    const named = await refused(call('sql', { id, sql: 'SELECT :a', params: { a: value } }))
    expect(named.field).toBe('params.a')
    const operations = [{ sql: 'SELECT 1' }, { sql: 'SELECT ?', params: [value] }]
    expect((await refused(call('batch', { id, operations }))).field).toBe('operations[1].params[0]')
  })

  test('a hole in a list too', async () => {
    // biome-ignore lint/suspicious/noSparseArray: the hole is what this is about
    expect((await refused(call('sql', { id, sql: 'SELECT ?, ?', params: [1, , 2] }))).field).toBe('params[1]')
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY, 2 ** 60])('as a time to live: %s', async (ttl_seconds) => {
    const error = await refused(call('kvExpire', { id, key: 'k', ttl_seconds }))
    expect([error.code, error.field]).toEqual(['invalid_ttl', 'ttl_seconds'])
  })

  test.each(['self', 'params'])('and one that holds itself: %s', async (name) => {
    const value: Record<string, unknown> = {}
    value[name] = value
    await refused(call('sql', { id, sql: 'SELECT ?', params: [value] }))
  })

  test('a date that is none would be null, and so the newest state', async () => {
    const error = await refused(call('restore', { id, timestamp: new Date(Number.NaN) }))
    expect([error.code, error.field]).toEqual(['invalid_request', 'timestamp'])
  })

  test.each<[string, object, string]>([
    ['listCells', { name: null }, 'name'],
    ['listCells', { name: {} }, 'name'],
    ['kvList', { prefix: ['a', 'b'] }, 'prefix'],
    ['changes', { tables: ['a,b'] }, 'tables'],
    ['changes', { tables: [5] }, 'tables'],
    ['kvGet', { key: 5 }, 'key'],
  ])('a query and a path take text alone: %s(%o)', async (name, args, field) => {
    expect((await refused(call(name, name === 'listCells' ? args : { id, ...args }))).field).toBe(field)
  })

  test('with the code that the library has for a key', async () => {
    expect((await refused(call('kvGet', { id, key: 5 }))).code).toBe('invalid_key')
    expect((await refused(call('kvMget', { id, keys: ['a', undefined] }))).code).toBe('invalid_key')
  })
})

test('what JSON can hold, and what has a typed form, arrives as it is', async () => {
  const params = [
    ...[integer(2n ** 60n), real(2 ** 60), 1.5, -0.5, 1e300, true, null, 'é', blob(new Uint8Array([0, 255]))],
    ...[Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, real(Number.POSITIVE_INFINITY), 1e20, 2 ** 63],
  ]
  const columns = params.map((_, i) => `?${i + 1}, typeof(?${i + 1})`).join()
  const { cells, id } = await served()
  const { rows } = await cells.sql<unknown[]>({
    id,
    sql: `SELECT ${columns}`,
    params: params as never,
    row_mode: 'array',
  } as never)
  expect(rows[0]).toEqual([
    ...['1152921504606846976', 'integer', 2 ** 60, 'real', 1.5, 'real', -0.5, 'real', 1e300, 'real'],
    ...[1, 'integer', null, 'null', 'é', 'text', { type: 'blob', base64: 'AP8=' }, 'blob'],
    ...['Infinity', 'real', '-Infinity', 'real', 'Infinity', 'real', 1e20, 'real', 2 ** 63, 'real'],
  ])
})

describe('every argument of every operation, and every field of one,', () => {
  const every = documentedArguments()

  test('is in the list of those that are checked', async () => {
    const lines = documentedOperations().map((operation) => {
      const own = every.filter((each) => each.operation === operation)
      const shown = own.map(({ path, isFree }) => `${path.replace('[0]', '[]')}${isFree ? '' : '!'}`)
      return `${operation}(${[...new Set(shown)].join(', ')})`
    })
    const head =
      'Each argument is refused by its name if it is NaN, a bigint or a function; with ! also if it is undefined.\n'
    await expect(`${head}\n${lines.join('\n')}\n`).toMatchFileSnapshot('checked-arguments.txt')
  })

  test.each(every.map((each) => [`${each.operation}(${each.path})`, each] as const))(
    '%s is refused if JSON has no form for it, or if it is undefined and its absence means more than a default',
    async (_, argument) => {
      const { operation, path, isFree } = argument
      for (const value of [Number.NaN, 5n, () => {}, '\ud800'])
        expect((await refused(call(operation, argument.with(value)))).field).toBe(path)
      if (!isFree) expect((await refused(call(operation, argument.with(undefined)))).field).toBe(path)
    },
  )

  test.each(every.map((each) => [`${each.operation}(${each.path}x)`, each] as const))(
    '%s is refused, with the name that is meant',
    async (_, argument) => {
      const { operation, path } = argument
      const name = /\w+$/.exec(path)?.[0]
      const error = await refused(call(operation, withRenamed(argument)))
      expect(error.field).toBe(`${path}x`)
      expect(error.message).toBe(`${path}x is not known: did you mean ${name}?`)
    },
  )

  /** The arguments with a letter too many in this one's name. */
  function withRenamed({ path, with: make }: DocumentedArgument): Record<string, unknown> {
    const name = /\w+$/.exec(path)?.[0] ?? ''
    const mark = Symbol('the value')
    const rename = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(rename)
      if (typeof value !== 'object' || value === null) return value
      const entries = Object.entries(value)
      return Object.fromEntries(
        entries.map(([each, member]) =>
          each === name && member === mark ? [`${each}x`, 1] : [each, rename(member)],
        ),
      )
    }
    return rename(make(mark)) as Record<string, unknown>
  }
})

test.each([
  ['kvMset', { entries: [{ key: 'k', value: 'v', if_version: undefined }] }, 'entries[0].if_version'],
  ['kvMset', { entries: [{ key: 'k', value: 'v', ttl_seconds: undefined }] }, 'entries[0].ttl_seconds'],
  [
    'batch',
    { operations: [{ kv: 'put', key: 'k', value: 'v', if_version: undefined }] },
    'operations[0].if_version',
  ],
  ['restore', { version: undefined }, 'version'],
  ['restore', { timestamp: undefined }, 'timestamp'],
  ['restore', { dry_run: undefined }, 'dry_run'],
  ['kvExpire', { key: 'k', ttl_seconds: undefined }, 'ttl_seconds'],
])('%s(%o) is refused: the condition would be lost', async (name, args, field) => {
  expect((await refused(call(name, { id, ...args }))).field).toBe(field)
})

describe('options of a call', () => {
  test.each<[string, (etag: string) => unknown]>([
    ['an object', (etag) => ({ 'If-Match': etag })],
    ['Headers', (etag) => new Headers({ 'if-match': etag })],
    ['pairs', (etag) => [['if-match', etag]]],
    ['a map', (etag) => new Map([['if-match', etag]])],
  ])('take headers as %s', async (_, headersOf) => {
    const { cells, id } = await served()
    const { version } = await cells.kvPut({ id, key: 'k', value: 'v' })
    const put = (etag: string) =>
      cells.kvPut({ id, key: 'k', value: 'w' }, { headers: headersOf(etag) as Record<string, string> })
    await expect(put('"other"')).rejects.toMatchObject({ code: 'precondition_failed' })
    expect(await put(`"${version}"`)).toMatchObject({ created: false })
  })

  test.each([...documentedOperations(), 'importCell'])(
    'of %s are refused if they are unknown',
    async (name) => {
      const required = documentedArguments().find(
        ({ operation, isRequired }) => operation === name && isRequired,
      )
      const args = name === 'importCell' ? { file: new Blob(['x']) } : (required?.with('x') ?? {})
      const error = await refused(call(name, args, { header: { 'if-match': '"1"' } }))
      expect(error.message).toBe('options.header is not known: did you mean headers?')
    },
  )

  test.each<[string, object, string]>([
    ['kvGet', { signal: {} }, 'options.signal must be an AbortSignal.'],
    ['kvGet', { headers: 'if-match: 1' }, 'options.headers must be headers.'],
    [
      'kvPut',
      { headers: { 'if-match': undefined } },
      'options.headers.if-match is undefined: leave it out if that is meant.',
    ],
    ['createCell', { idempotencyKey: 7 }, 'options.idempotencyKey must be a text.'],
    [
      'kvIncr',
      { idempotencyKey: 'x' },
      'options.idempotencyKey is for createCell alone: nothing else heeds it.',
    ],
    [
      'importCell',
      { idempotencyKey: 'x' },
      'options.idempotencyKey is for createCell alone: nothing else heeds it.',
    ],
    ['changes', { lastEventId: 7 }, 'options.lastEventId must be a text.'],
  ])('of %s are refused if they are of a wrong kind: %o', async (name, options, message) => {
    const required = documentedArguments().find(
      ({ operation, isRequired }) => operation === name && isRequired,
    )
    const args = name === 'importCell' ? { file: new Blob(['x']) } : (required?.with('x') ?? {})
    expect((await refused(call(name, args, options))).message).toBe(message)
  })

  test('may be undefined, as absent', async () => {
    const { cells, id } = await served()
    const options = { signal: undefined, headers: undefined, idempotencyKey: undefined }
    expect(await cells.kvPut({ id, key: 'k', value: 'v' }, options)).toMatchObject({ created: true })
  })

  test.each([
    [{ apikey: 'k' }, 'options.apikey is not known: did you mean apiKey?'],
    [{ apiKey: 7 }, 'options.apiKey must be a text.'],
    [{ retries: '3' }, 'options.retries must be a number from 0 on.'],
    [{ retries: Number.NaN }, 'options.retries must be a number from 0 on.'],
    [{ retryAfterMsMax: -1 }, 'options.retryAfterMsMax must be a number from 0 on.'],
    [{ fetch: {} }, 'options.fetch must be a function.'],
    [{ wait: 5 }, 'options.wait must be a function.'],
  ])('of the client too: %o', (options, message) => {
    expect(() => createClient({ baseUrl: 'http://x', ...options } as never)).toThrow(message)
  })
})
