import { describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { S3ObjectStore } from '../../src/backup/object-store/s3/s3-object-store.ts'
import { CellError } from '../../src/errors.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { ScratchPlace } from '../support/backup/scratch-store.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { rejectedBy, thrownBy } from '../support/thrown.ts'

interface Under {
  store: CellStore
  cell: Cell
  account: string
}

async function opened(): Promise<Under> {
  const store = await new ScratchPlace().create()
  return { store, cell: store.createCell(), account: store.accounts.create().id }
}

/** What a JavaScript program can pass where TypeScript would complain. */
const given = (value: unknown) => value as never

const UNKNOWN: [call: string, run: (under: Under) => unknown, field: string, near: string][] = [
  ['kv.put', ({ cell }) => cell.kv.put('k', 'v', given({ ttl: 5 })), 'ttl', 'ttlSeconds'],
  ['kv.putJson', ({ cell }) => cell.kv.putJson('k', 1, given({ ttl_ms: 5 })), 'ttl_ms', 'ttlMs'],
  ['kv.incr', ({ cell }) => cell.kv.incr('k', 1, given({ ttl: 5 })), 'ttl', 'ttlSeconds'],
  ['kv.list', ({ cell }) => cell.kv.list(given({ prefx: 'a' })), 'prefx', 'prefix'],
  [
    'kv.put of a list',
    ({ cell }) => cell.kv.put([given({ key: 'k', value: 'v', ttl: 5 })]),
    'entries[0].ttl',
    'ttlSeconds',
  ],
  ['kv.delete', ({ cell }) => cell.kv.delete('k', given({ version: '1' })), 'version', 'ifVersion'],
  ['kv.keys', ({ cell }) => cell.kv.keys(given({ prefx: 'a' })), 'prefx', 'prefix'],
  ['sql', ({ cell }) => cell.sql('SELECT 1', [], given({ rowmode: 'array' })), 'rowmode', 'rowMode'],
  [
    'sql limits',
    ({ cell }) => cell.sql('SELECT 1', [], { limits: given({ rows: 1 }) }),
    'limits.rows',
    'rowsMax',
  ],
  [
    'prepare limits',
    ({ cell }) => cell.prepare('SELECT 1', { limits: given({ rows: 1 }) }),
    'limits.rows',
    'rowsMax',
  ],
  ['createCell', ({ store }) => store.createCell(given({ account: 'x' })), 'account', 'accountId'],
  ['cells', ({ store }) => store.cells(given({ limits: 5 })), 'limits', 'limit'],
  ['purgeCell', ({ store, cell }) => store.purgeCell(cell.id, given({ signl: 1 })), 'signl', 'signal'],
  ['close', ({ store }) => store.close(given({ deadline: 5 })), 'deadline', 'deadlineMs'],
  ['accounts.create', ({ store }) => store.accounts.create(given({ nmae: 'x' })), 'nmae', 'name'],
  ['apiKeys.create', ({ store, account }) => store.apiKeys.create(account, given({ nam: 1 })), 'nam', 'name'],
  ['apiKeys.page', ({ store, account }) => store.apiKeys.page(account, given({ limt: 1 })), 'limt', 'limit'],
  [
    'backups.snapshot',
    ({ store, cell }) => store.backups.snapshot(cell.id, given({ onprogres: 1 })),
    'onprogres',
    'onProgress',
  ],
  [
    'backups.restore',
    ({ store, cell }) => store.backups.restore(cell.id, given({ verison: 'x' })),
    'verison',
    'version',
  ],
  [
    'backups.verify',
    ({ store, cell }) => store.backups.verify(cell.id, given({ depe: true })),
    'depe',
    'deep',
  ],
  ['backups.list', ({ store, cell }) => store.backups.list(cell.id, given({ limits: 5 })), 'limits', 'limit'],
  [
    'retention.prune',
    ({ store, cell }) => store.retention?.prune(cell.id, given({ dryrun: true })),
    'dryrun',
    'dryRun',
  ],
  ['createHandler', ({ store }) => createHandler(store, given({ basepath: '/api' })), 'basepath', 'basePath'],
  [
    'createListener',
    ({ store }) => createListener(store, { limits: given({ bodyBytes: 1 }) }),
    'limits.bodyBytes',
    'bodyBytesMax',
  ],
  ['a folder', () => new FileObjectStore(given({ root: '/x', patient: {} })), 'patient', 'patience'],
  ['S3', () => new S3ObjectStore(given({ bucket: 'b-b', regoin: 'x' })), 'regoin', 'region'],
]

describe('an option that is not known is refused, with the nearest name', () => {
  test.each(UNKNOWN)('by %s', async (_call, run, field, near) => {
    const error = await rejectedBy((async () => run(await opened()))())
    expect(error.details).toEqual({ field })
    expect(error.message).toBe(`${field} is not known: did you mean ${near}?`)
    expect(['invalid_request', 'invalid_setting']).toContain(error.code)
  })

  test.each([
    [{ objectStoer: 'file:///x' }, 'objectStoer', 'objectStore'],
    [{ backup: {} }, 'backup', 'backups'],
    [{ snapshotEvery: 1 }, 'snapshotEvery', 'backups.snapshotEveryMs'],
    [{ keep: 'all:1d' }, 'keep', 'backups.keep'],
    [{ backups: { snapshotEvery: 1 } }, 'backups.snapshotEvery', 'snapshotEveryMs'],
    [{ limits: { keyBytes: 1 } }, 'limits.keyBytes', 'keyBytesMax'],
    [{ quotas: { cells: 1 } }, 'quotas.cells', 'cellsMax'],
  ])('by a store: %o', async (options, field, near) => {
    const place = new ScratchPlace()
    expect(await rejectedBy(CellStore.create(place.data, given(options)))).toMatchObject({
      code: 'invalid_setting',
      message: `${field} is not known: did you mean ${near}?`,
      details: { field },
    })
  })
})

test.each<[call: string, run: (under: Under) => unknown, code: string, message: string]>([
  [
    'put() of a list with options',
    ({ cell }) => cell.kv.put(given([]), given({ ttlSeconds: 5 })),
    'invalid_request',
    'A list of entries takes no options: each entry has its own.',
  ],
  [
    'delete() of a list with options',
    ({ cell }) => cell.kv.delete(given(['k']), given({ ifVersion: '1' })),
    'invalid_request',
    'A list of keys takes no options: delete keys with conditions one by one, in a transaction.',
  ],
  [
    'exec() with parameters',
    ({ cell }) => cell.exec('SELECT ?', given([1])),
    'invalid_request',
    'options must be an object, not a list.',
  ],
  [
    'a date where parameters are named',
    ({ cell }) => cell.prepare('SELECT ?').get(given(new Date(0))),
    'invalid_parameter',
    'Parameters are an array, or a plain object for named ones.',
  ],
  [
    'prepare() with a policy that is none',
    ({ cell }) => cell.prepare('SELECT 1', { policy: given('tenat') }),
    'invalid_request',
    'policy must be tenant or trusted, but it is "tenat".',
  ],
  [
    'exec() with a policy that is none',
    ({ cell }) => cell.exec('', { policy: given('tenat') }),
    'invalid_request',
    'policy must be tenant or trusted, but it is "tenat".',
  ],
  [
    'migrate() without a list',
    ({ cell }) => cell.migrate(given('SELECT 1')),
    'invalid_request',
    'migrations must be a list of SQL texts and functions.',
  ],
  [
    'a store with one extension',
    () => CellStore.create(new ScratchPlace().data, { extensions: given('vec0') }),
    'invalid_setting',
    'extensions must be a list of paths, but it is "vec0".',
  ],
  [
    'a store with one name of a function for tenants',
    () => CellStore.create(new ScratchPlace().data, { tenantFunctions: given('slug') }),
    'invalid_setting',
    'tenantFunctions must be a list of names, but it is "slug".',
  ],
])('%s is refused', async (_call, run, code, message) => {
  expect(await rejectedBy((async () => run(await opened()))())).toMatchObject({ code, message })
})

test.each([
  undefined,
  null,
  5,
  10n ** 30n,
  'x',
  '',
  'a\0b',
  'x'.repeat(5_000),
  {},
  [],
  Symbol('s'),
  () => {},
  new DataView(new ArrayBuffer(8)),
  new Uint8Array(new SharedArrayBuffer(8)),
])(
  'a wrong argument, such as %o, ends in a CellError or in a result, never in another error',
  async (bad) => {
    const { store, cell, account } = await opened()
    const { kv } = cell
    const id = given(bad)
    const calls: (() => unknown)[] = [
      () => kv.get(id),
      () => kv.entry(id),
      () => kv.put('k', id),
      () => kv.put('k', 'v', id),
      () => kv.put('k', 'v', { keepTtl: id }),
      () => kv.delete(id),
      () => kv.incr('n', id),
      () => kv.incr('n', 1, id),
      () => kv.ttl(id),
      () => kv.ttl([id]),
      () => kv.expire('k', id),
      () => kv.list(id),
      () => kv.list({ prefix: id }),
      () => kv.list({ cursor: id }),
      () => kv.list({ limit: id }),
      () => kv.get([id]),
      () => kv.put(id),
      () => kv.put([id]),
      () => kv.put('k', 'v', { ifVersion: id }),
      () => kv.delete([id]),
      () => kv.delete('k', id),
      () => kv.delete('k', { ifVersion: id }),
      () => kv.getdel(id),
      () => kv.keys(id),
      () => kv.putJson('j', id),
      () => cell.sql(id),
      () => cell.sql('SELECT ?', id),
      () => cell.sql('SELECT ?', [id]),
      () => cell.sql('SELECT 1', [], id),
      () => cell.transaction(id),
      () => cell.commit(id),
      () => store.createCell(id),
      () => store.createCell({ name: id }),
      () => store.createCell({ accountId: id }),
      () => store.createCell({ accountId: account, idempotency: id }),
      () => store.openCell(id),
      () => store.deleteCell(id),
      () => store.findCell(id),
      () => store.findCellByName(id),
      () => store.findCellByName('x', id),
      () => store.findCellByName('x', { accountId: id }),
      () => store.cells(id),
      () => store.cells({ accountId: id }),
      () => store.purgeCell(id),
      () => store.accounts.create(id),
      () => store.apiKeys.create(id),
      () => store.apiKeys.create(account, { key: id }),
      () => store.apiKeys.page(account, id),
      () => store.apiKeys.verify(id),
      () => store.apiKeys.list(id),
      () => store.apiKeys.page(id),
      () => store.apiKeys.revoke(account, id),
      () => store.apiKeys.revoke(id, account),
      () => store.apiKeys.rotate(account, id),
      () => store.importCell(id),
      () => store.importCell('missing.db', { signal: id }),
      () => cell.export(id === 'x' ? given('missing/x') : id),
      () => cell.export('missing/x', { signal: id }),
      () => cell.export('missing/x', { onProgress: id }),
      () => store.backups.snapshot(id),
      () => store.backups.snapshot(cell.id, id),
      () => store.backups.restore(id),
      () => store.backups.restore(cell.id, { version: id }),
      () => store.backups.verify(id),
      () => store.backups.verify(cell.id, { version: id }),
      () => store.backups.list(id),
      () => store.backups.list(cell.id, { cursor: id }),
      () => store.backups.ensureLocal(id),
    ]
    for (const call of calls) {
      try {
        await call()
      } catch (error) {
        expect(error, String(call)).toBeInstanceOf(CellError)
        expect((error as CellError).code, String(call)).not.toBe('internal')
      }
    }
    kv.put('still', 'works')
    expect(kv.get('still')).toBe('works')
  },
)

test.each(['get', 'entry', 'ttl', 'delete', 'getdel'] as const)(
  'kv.%s takes a key or a list of keys, and no other object',
  async (method) => {
    const { cell } = await openTestCell()
    expect(thrownBy(() => cell.kv[method](given({ length: 1 })))).toMatchObject({
      code: 'invalid_request',
      message: 'keys must be a list of keys.',
    })
  },
)

test('a misspelt policy does not count as trusted', async () => {
  const { cell } = await openTestCell({ sqlPolicy: 'tenant' })
  expect(thrownBy(() => cell.sql('VACUUM', [], { policy: given('tenent') })).details.field).toBe('policy')
})

describe('the work of a transaction', () => {
  test.each(['transaction', 'commit'] as const)(
    'is no async function: none of it runs in %s',
    async (method) => {
      const { cell } = await openTestCell()
      const work = async (): Promise<void> => {
        cell.kv.put('a', '1')
        await null
        cell.kv.put('b', '1')
      }
      expect(await rejectedBy((async () => cell[method](given(work)))())).toMatchObject({
        code: 'invalid_request',
      })
      expect(cell.kv.list().entries).toEqual([])
    },
  )

  test.each(['transaction', 'commit'] as const)('that returns a promise is undone in %s', async (method) => {
    const { cell } = await openTestCell()
    const work = () => Promise.resolve(cell.kv.put('a', '1'))
    expect(await rejectedBy((async () => cell[method](given(work)))())).toMatchObject({
      code: 'invalid_request',
    })
    const neighbours = [cell.commit(given(work)), cell.commit(() => cell.kv.put('b', '1'))]
    expect((await Promise.allSettled(neighbours)).map(({ status }) => status)).toEqual([
      'rejected',
      'fulfilled',
    ])
    expect(cell.kv.list().entries.map(({ key }) => key)).toEqual(['b'])
  })
})

test('an account that does not exist gets no cell and no key', async () => {
  const { store } = await opened()
  const before = store.cells().cells.length
  const refused = { code: 'account_not_found', details: { field: 'accountId' } }
  expect(thrownBy(() => store.createCell({ accountId: 'nobody' }))).toMatchObject(refused)
  expect(thrownBy(() => store.cell('x', { accountId: 'nobody' }))).toMatchObject(refused)
  expect(thrownBy(() => store.apiKeys.create('nobody'))).toMatchObject(refused)
  expect(store.cells().cells).toHaveLength(before)
})

test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, '10'])(
  'a deadline of %s closes nothing',
  async (deadlineMs) => {
    const { store } = await opened()
    const error = await rejectedBy((async () => store.close({ deadlineMs: given(deadlineMs) }))())
    expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'deadlineMs' } })
    expect(store.cells().cells).not.toEqual([])
  },
)

test.each(['snapshotEveryMs', 'incrementalEveryMs', 'drillEveryMs'] as const)(
  'a schedule without an object store is refused: %s',
  async (name) => {
    const place = new ScratchPlace()
    const error = await rejectedBy(CellStore.create(place.data, { backups: { [name]: 1_000 } }))
    expect(error).toMatchObject({ code: 'invalid_setting', details: { field: `backups.${name}` } })
    const store = await CellStore.create(place.data, { backups: { [name]: null } })
    await store.close()
  },
)

describe('what a mistake is told', () => {
  const mistakes: [string, (place: Awaited<ReturnType<typeof opened>>) => unknown, string][] = [
    [
      'another durability',
      ({ store }) => store.createCell({ durability: given('replicated') }),
      'durability must be full, relaxed or remote, but it is "replicated".',
    ],
    [
      'parameters one by one',
      ({ cell }) => cell.sql('SELECT ?, ?', given(1), given(2)),
      'options must be an object. Several parameters are one list: sql(text, [1, 2]).',
    ],
    [
      'and so in get()',
      ({ cell }) => cell.get('SELECT ?, ?', given(1), given(2)),
      'options must be an object. Several parameters are one list: sql(text, [1, 2]).',
    ],
    [
      'a change in get()',
      ({ cell }) => cell.get('CREATE TABLE t (a)'),
      'The statement gives no rows: use cell.sql(), or run() of a prepared statement.',
    ],
    [
      'a parameter that is undefined',
      ({ cell }) => cell.sql('SELECT ?', [given(undefined)]),
      "Parameter params[0]: it is undefined; use null, a number, a bigint, a string, a boolean, a Uint8Array or { type: 'real', value }.",
    ],
    [
      'a date',
      ({ cell }) => cell.sql('SELECT :at', { at: given(new Date()) }),
      "Parameter params.at: it is a Date; use null, a number, a bigint, a string, a boolean, a Uint8Array or { type: 'real', value }.",
    ],
    [
      'a function as JSON',
      ({ cell }) => cell.kv.putJson('k', () => {}),
      'The value has no JSON form: it is a function.',
    ],
    [
      'a bigint as JSON',
      ({ cell }) => cell.kv.putJson('k', { n: 1n }),
      'The value has no JSON form: Do not know how to serialize a BigInt.',
    ],
    [
      'a circle as JSON',
      ({ cell }) => {
        const circle: { self?: unknown } = {}
        circle.self = circle
        cell.kv.putJson('k', circle)
      },
      'The value has no JSON form: Converting circular structure to JSON.',
    ],
    [
      'a name in place of an id',
      ({ store }) => store.openCell('app'),
      'There is no such cell: "app" is not an id. store.cell(name) takes a name.',
    ],
    [
      'a name as the source of a new cell',
      ({ store }) => store.createCell({ from: { cellId: 'app' } }),
      'There is no such cell: "app" is not an id. store.cell(name) takes a name.',
    ],
  ]
  test.each(mistakes)('%s', async (_, run, message) => {
    const error = await rejectedBy((async () => run(await opened()))())
    expect(error.message).toBe(message)
  })

  test('a name that is taken, of an account and of none', async () => {
    const { store, account } = await opened()
    const own = store.cell('x')
    const theirs = store.cell('x', { accountId: account })
    const message = (owner: { accountId?: string }) =>
      thrownBy(() => store.createCell({ name: 'x', ...owner })).message
    expect(message({})).toMatch(`There is a cell of this name already: ${own.id}.`)
    expect(message({ accountId: account })).toMatch(
      `The account has a cell of this name already: ${theirs.id}.`,
    )
  })
})
