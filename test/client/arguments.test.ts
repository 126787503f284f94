import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { ArgumentError, blob, type Client, createClient, integer, real } from '../../src/client/index.ts'
import { OPERATIONS } from '../../src/client/operations.generated.ts'
import { createHandler } from '../../src/http/fetch-handler.ts'
import { temporaryStore } from '../../src/testing/index.ts'

/** What a call is given is checked before anything is sent: nothing is dropped, rounded or taken for something else. */

let cells: Client
let id: string
let sent: number
beforeEach(async () => {
  const temporary = await temporaryStore()
  onTestFinished(() => temporary.close())
  const { key } = temporary.store.apiKeys.create(temporary.store.accounts.create().id)
  const handler = createHandler(temporary.store)
  const fetch = (url: string, init: RequestInit) => {
    sent++
    return handler(new Request(url, init))
  }
  cells = createClient({ baseUrl: 'http://cells.test', apiKey: key, fetch })
  sent = 0
  id = (await cells.createCell()).id
  sent = 0
})

const call = (name: string, ...given: [args?: object, options?: object]) =>
  (cells as unknown as Record<string, (...given: unknown[]) => unknown>)[name]?.(...given)

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
    [1e20, /pass integer/],
    [Number.NaN, /NaN/],
    [undefined, /is undefined/],
    [() => 1, /a function/],
    [Symbol('x'), /a symbol/],
    [5n, /pass integer\(…\)/],
    [new Uint8Array(1), /pass blob\(…\)/],
    [new Date(0), /a Date/],
    [{ type: 'real', value: Number.NaN }, /NaN/],
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

  test('and one that holds itself', async () => {
    const value: Record<string, unknown> = {}
    value['self'] = value
    await refused(call('kvMset', { id, entries: [value] }))
  })
})

test('what JSON can hold, and what has a typed form, arrives as it is', async () => {
  const params = [
    ...[integer(2n ** 60n), real(2 ** 60), 1.5, -0.5, 1e300, true, null, 'é', blob(new Uint8Array([0, 255]))],
    ...[Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, real(Number.POSITIVE_INFINITY)],
  ]
  const columns = params.map((_, i) => `?${i + 1}, typeof(?${i + 1})`).join()
  const { rows } = await cells.sql<unknown[]>({
    id,
    sql: `SELECT ${columns}`,
    params: params as never,
    row_mode: 'array',
  } as never)
  expect(rows[0]).toEqual([
    ...['1152921504606846976', 'integer', 2 ** 60, 'real', 1.5, 'real', -0.5, 'real', 1e300, 'real'],
    ...[1, 'integer', null, 'null', 'é', 'text', { type: 'blob', base64: 'AP8=' }, 'blob'],
    ...['Infinity', 'real', '-Infinity', 'real', 'Infinity', 'real'],
  ])
})

/** Present and undefined, these count as absent: they narrow and guard nothing. `name` is one of a new cell or key. */
const FREE = ['cursor', 'limit', 'reverse', 'values', 'timeout_ms', 'row_mode', 'params', 'delta', 'name']

describe('every argument of every operation', () => {
  const rows = Object.entries(OPERATIONS).map(([name, { path, query, body }]) => {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, each = '']) => each)
    return {
      name,
      names: [...inPath, ...query, ...(body ?? [])],
      isSearch: (query as readonly string[]).includes('name'),
    }
  })

  test('is in the list of those that are checked', async () => {
    const lines = rows.map(({ name, names, isSearch }) => {
      const shown = names.map((each) =>
        FREE.includes(each) && !(each === 'name' && isSearch) ? `${each}` : `${each}!`,
      )
      return `${name}(${shown.join(', ')})`
    })
    const head =
      'Each argument is refused by its name if it is NaN, a bigint or a function; with ! also if it is undefined.\n'
    await expect(`${head}\n${lines.join('\n')}\n`).toMatchFileSnapshot('checked-arguments.txt')
  })

  test.each(rows)(
    'of $name is refused if JSON has no form for it, and an unknown one always',
    async (row) => {
      const { name, names, isSearch } = row
      const given = Object.fromEntries(names.map((each) => [each, 'x']))
      for (const each of names) {
        for (const value of [Number.NaN, 5n, () => {}])
          expect((await refused(call(name, { ...given, [each]: value }))).field).toBe(each)
        if (FREE.includes(each) && !(each === 'name' && isSearch)) continue
        expect((await refused(call(name, { ...given, [each]: undefined }))).field).toBe(each)
      }
      expect((await refused(call(name, { ...given, nmae: 1 }))).message).toMatch(/^nmae is not known\. /)
    },
  )
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
    const { version } = await cells.kvPut({ id, key: 'k', value: 'v' })
    const put = (etag: string) =>
      cells.kvPut({ id, key: 'k', value: 'w' }, { headers: headersOf(etag) as Record<string, string> })
    await expect(put('"other"')).rejects.toMatchObject({ code: 'precondition_failed' })
    expect(await put(`"${version}"`)).toMatchObject({ created: false })
  })

  test.each([...Object.keys(OPERATIONS), 'changes', 'importCell'])(
    'of %s are refused if they are unknown',
    async (name) => {
      const args = { id: 'x', key: 'k', key_id: 'x', account_id: 'x', restore_id: 'x' }
      const known = ['changes', 'importCell'].includes(name)
        ? { ...(name === 'changes' ? { id } : { file: new Blob(['x']) }) }
        : args
      const row = (OPERATIONS as Record<string, { path: string }>)[name]
      const given =
        row === undefined
          ? known
          : Object.fromEntries(Object.entries(args).filter(([each]) => row.path.includes(`{${each}}`)))
      const asked = async () => {
        const result = call(name, given, { header: { 'if-match': '"1"' } })
        // An iterator begins with its first step.
        return name === 'changes'
          ? await (result as AsyncIterator<unknown, unknown, undefined>).next(undefined)
          : await result
      }
      expect((await refused(asked())).message).toMatch(/^options\.header is not known/)
    },
  )

  test('of the client too', () => {
    const options = { baseUrl: 'http://x', apikey: 'k' }
    expect(() => createClient(options)).toThrow('options.apikey is not known')
  })
})
