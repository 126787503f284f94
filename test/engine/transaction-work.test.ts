import { describe, expect, test } from 'vitest'
import type { Cell, CellError, Migration } from '../../src/index.ts'
import { temporaryStore } from '../../src/testing/index.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { rejectedBy, thrownBy } from '../support/thrown.ts'

/**
 * A function that does not end when it returns can't run as a transaction: nothing of it would be in it. Each form of one is
 * refused, wherever the library runs a function in a transaction, and nothing is kept.
 */

const THEN = 'then'

type Work = (cell: Cell) => unknown

const insert: Work = (cell) => cell.sql('INSERT INTO t VALUES (1)').rows

/** Those that can be told before they run. */
const DECLARED: Record<string, Work> = {
  'an async function': async (cell) => insert(cell),
  'a generator function': function* (cell) {
    yield insert(cell)
  },
  'an async generator function': async function* (cell) {
    yield insert(cell)
  },
}

/** Those that are known by what they return. */
const RETURNED: Record<string, Work> = {
  'a function that returns a promise': (cell) => Promise.resolve(insert(cell)),
  'a function that returns a promise that rejects': (cell) =>
    Promise.reject(new Error(`nobody awaits this: ${insert(cell)}`)),
  'a function that returns a query that runs once it is awaited': (cell) => {
    insert(cell)
    return { [THEN]: () => insert(cell) }
  },
  'a function that returns a function with then()': (cell) => {
    insert(cell)
    return Object.assign(() => {}, { [THEN]() {} })
  },
  'a function that returns a generator': (cell) => {
    insert(cell)
    return (function* () {
      yield insert(cell)
    })()
  },
  'a function that returns an async generator': (cell) => {
    insert(cell)
    return (async function* () {
      yield insert(cell)
    })()
  },
  'a function that returns an iterator of the language': (cell) => {
    insert(cell)
    return new Map([[1, 2]]).entries()
  },
  'a function that returns an iterator of its own': (cell) => {
    insert(cell)
    return { next: () => ({ done: true, value: insert(cell) }) }
  },
  'a function that returns the rows of a statement, not read yet': (cell) => {
    insert(cell)
    return cell.prepare('INSERT INTO t VALUES (2) RETURNING a').iterate()
  },
}

type Refuse = (cell: Cell, work: Work) => CellError | Promise<CellError>

const PLACES: Record<string, Refuse> = {
  transaction: (cell, work) => thrownBy(() => cell.transaction(() => work(cell))),
  'a transaction inside a transaction': (cell, work) =>
    thrownBy(() => cell.transaction(() => cell.transaction(() => work(cell)))),
  'a transaction inside a commit': (cell, work) =>
    rejectedBy(cell.commit(() => cell.transaction(() => work(cell)))),
  commit: (cell, work) => rejectedBy(cell.commit(() => work(cell))),
  'commit beside a neighbour': async (cell, work) => {
    const neighbour = cell.commit(() => cell.kv.put('k', 'v'))
    const error = await rejectedBy(cell.commit(() => work(cell)))
    await neighbour
    return error
  },
  migrate: (cell, work) => thrownBy(() => cell.migrate([work as Migration])),
}

const rowsOf = (cell: Cell) => cell.sql('SELECT * FROM t').rows
const versionOf = (cell: Cell) => cell.prepare('PRAGMA user_version').pluck().get()

describe.each(Object.entries(PLACES))('%s', (_, refuse) => {
  test.each(Object.entries({ ...DECLARED, ...RETURNED }))(
    'refuses %s, and keeps nothing',
    async (_, work) => {
      const { cell } = await openTestCell()
      cell.sql('CREATE TABLE t (a)')
      const error = await refuse(cell, work)
      expect([error.code, error.message]).toEqual([
        'invalid_request',
        expect.stringMatching(/async|iterator/),
      ])
      expect([rowsOf(cell), versionOf(cell)]).toEqual([[], 0])
      expect(cell.transaction(() => insert(cell))).toEqual([])
      // An unhandled rejection is reported in a later turn, and fails the run.
      await new Promise((resolve) => setImmediate(resolve))
    },
  )
})

describe('Functions that do not end when they return', () => {
  test.each(Object.entries(DECLARED))('%s is refused before anything runs', async (_, work) => {
    const { cell } = await openTestCell()
    cell.sql('CREATE TABLE t (a)')
    const given = work as never
    expect([
      thrownBy(() => cell.transaction(given)),
      await rejectedBy(cell.commit(given)),
      thrownBy(() => cell.migrate(['INSERT INTO t VALUES (1)', given])),
    ]).toMatchObject([
      { code: 'invalid_request', details: { field: 'work' } },
      { code: 'invalid_request', details: { field: 'work' } },
      { code: 'invalid_request', details: { field: 'migrations[1]' } },
    ])
    expect([rowsOf(cell), versionOf(cell)]).toEqual([[], 0])
  })

  test('are refused by a store of cellstore/testing, too', async () => {
    await using temporary = await temporaryStore()
    const cell = temporary.store.createCell()
    cell.sql('CREATE TABLE t (a)')
    for (const work of Object.values({ ...DECLARED, ...RETURNED })) {
      expect(thrownBy(() => cell.transaction(() => work(cell))).code).toBe('invalid_request')
      expect((await rejectedBy(cell.commit(() => work(cell)))).code).toBe('invalid_request')
      expect(thrownBy(() => cell.migrate([work as Migration])).code).toBe('invalid_request')
    }
    expect([rowsOf(cell), versionOf(cell)]).toEqual([[], 0])
  })

  test.each<[string, () => unknown]>([
    ['an async function', async () => 1],
    ['a function that returns a promise that rejects', () => Promise.reject(new Error('nobody awaits this'))],
    ['a generator function', function* () {}],
    ['a function that returns an iterator', () => [1].values()],
  ])('%s is no function for SQL: the statement fails', async (_, late) => {
    const { cell } = await openTestCell({ functions: { late: late as () => null } })
    expect(thrownBy(() => cell.sql('SELECT late()'))).toMatchObject({
      code: 'sql_error',
      message:
        'The function late() must return its value at once, and has returned a promise or an iterator.',
    })
    await new Promise((resolve) => setImmediate(resolve))
  })
})

test('What has ended when it returns is taken: rows, maps, pages with a next cursor, classes with methods', async () => {
  const { cell } = await openTestCell()
  for (const value of [
    [1],
    new Map([[1, 2]]),
    new Set([1]),
    { next: 'cursor' },
    { [THEN]: 7 },
    () => 1,
    new Date(),
  ]) {
    expect(cell.transaction(() => value)).toBe(value)
    expect(await cell.commit(() => ({ value }))).toEqual({ value })
  }
})
