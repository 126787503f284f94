import { assertType, describe, expectTypeOf, test } from 'vitest'
import { BackupManager } from '../../src/backup/backup-manager.ts'
import type { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import type { ObjectStore } from '../../src/backup/object-store/object-store.ts'
import type { S3ObjectStore } from '../../src/backup/object-store/s3/s3-object-store.ts'
import type { BackupResult, RestoreResult } from '../../src/backup/versions/backup-types.ts'
import type { Clock } from '../../src/base/clock.ts'
import { DEFAULT_LIMITS, type Limits } from '../../src/base/options/limits.ts'
import type { Paged } from '../../src/base/paging.ts'
import type { SqlParams, SqlResult, SqlRow, SqlValue } from '../../src/engine/statements/sql-values.ts'
import type { SqlOptions } from '../../src/engine/statements/statement-runner.ts'
import { CellError, type CellErrorCode, type CellErrorKind, isCellError } from '../../src/errors.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import type { KvEntry, KvListEntry, KvPage, KvPutResult } from '../../src/kv/entry.ts'
import type { Kv } from '../../src/kv/kv.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { CellPage, ListedCell } from '../../src/store/cells/cell-directory.ts'
import { Cell } from '../../src/store/open/cell.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'

/** What a program that uses the library can rely on at compile time: the examples of the design, and what must not pass. */
declare const store: CellStore
declare const cell: Cell

interface User {
  id: number
  name: string
  age: number | null
}

describe('prepared statements', () => {
  test('have the rows that the caller names, in the form that pluck() and raw() choose', () => {
    expectTypeOf(cell.prepare('SELECT 1').get()).toEqualTypeOf<SqlRow | undefined>()
    expectTypeOf(cell.prepare<User>('SELECT * FROM users').all()).toEqualTypeOf<User[]>()
    expectTypeOf(cell.prepare<number>('SELECT 1').pluck().get(1, 'x', null)).toEqualTypeOf<
      number | undefined
    >()
    expectTypeOf(cell.prepare<[number, string]>('SELECT 1').raw().iterate()).toExtend<
      IterableIterator<[number, string]>
    >()
    expectTypeOf(cell.get<User>('SELECT * FROM users WHERE id = :id', { id: 1 })).toEqualTypeOf<
      User | undefined
    >()
    // @ts-expect-error a Date is no value for SQLite
    cell.prepare('SELECT ?').get(new Date())
    // @ts-expect-error a migration is SQL or a function
    cell.migrate([7])
  })

  test('a store takes functions of any arguments that give values', () => {
    assertType<StoreOptions>({
      functions: {
        slug: (text: string) => text,
        sum: { run: (a: number, b: number) => a + b, deterministic: true },
      },
      extensions: ['/usr/lib/vec0'],
      tenantFunctions: ['slug'],
    })
    // @ts-expect-error an object is no value for SQLite
    assertType<StoreOptions>({ functions: { bad: () => ({ a: 1 }) } })
  })
})

describe('the package', () => {
  test('has as values what a program constructs or calls, and nothing else', () => {
    expectTypeOf<keyof typeof import('../../src/index.ts')>().toEqualTypeOf<
      | 'CellStore'
      | 'FileObjectStore'
      | 'S3ObjectStore'
      | 'createHandler'
      | 'createListener'
      | 'CellError'
      | 'isCellError'
      | 'ERROR_KINDS'
      | 'DEFAULT_LIMITS'
    >()
  })
})

describe('a store', () => {
  test('is made, opened or either, and is a disposable resource', () => {
    expectTypeOf(CellStore.create).returns.resolves.toEqualTypeOf<CellStore>()
    expectTypeOf(
      CellStore.open('./data', { objectStore: 's3://bucket/prefix' }),
    ).resolves.toEqualTypeOf<CellStore>()
    expectTypeOf(CellStore.openOrCreate).returns.resolves.toEqualTypeOf<CellStore>()
    expectTypeOf(store.close()).resolves.toBeVoid()
    expectTypeOf(store).toExtend<AsyncDisposable>()
    // @ts-expect-error: there is no store without a directory
    CellStore.create()
    // @ts-expect-error: a store is opened, not constructed
    new CellStore('./data')
  })

  test('takes an object store as a URL or as an object, and settings by their names', () => {
    assertType<StoreOptions>({
      objectStore: 's3://bucket/prefix',
      durability: 'relaxed',
      sqlPolicy: 'tenant',
    })
    assertType<StoreOptions>({ objectStore: {} as ObjectStore, limits: { keyBytesMax: 100 } })
    assertType<StoreOptions>({ backups: { snapshotEveryMs: 86_400_000, keep: 'all:1d' }, clock: {} as Clock })
    // @ts-expect-error: a misspelt setting
    assertType<StoreOptions>({ durabilty: 'full' })
    // @ts-expect-error: no such durability
    assertType<StoreOptions>({ durability: 'none' })
    // @ts-expect-error: no such limit
    assertType<StoreOptions>({ limits: { keyLengthMax: 1 } })
    expectTypeOf(DEFAULT_LIMITS).toEqualTypeOf<Limits>()
  })

  test('makes, opens, deletes and lists cells', () => {
    expectTypeOf(store.createCell({ name: 'acme' })).toExtend<Cell>()
    expectTypeOf(store.createCell()).toExtend<Cell>()
    expectTypeOf(store.openCell('id')).toEqualTypeOf<Cell>()
    expectTypeOf(store.deleteCell('id')).toBeVoid()
    expectTypeOf(store.cells({ limit: 10 })).toEqualTypeOf<Paged<CellPage, ListedCell>>()
    expectTypeOf(store.cells().cells).toEqualTypeOf<ListedCell[]>()
    expectTypeOf(store.cells().nextCursor).toEqualTypeOf<string | null>()
    expectTypeOf(store.cell('acme', { accountId: 'id' })).toEqualTypeOf<Cell>()
    expectTypeOf(store.importCell('acme.db', { name: 'acme' })).resolves.toEqualTypeOf<Cell>()
    // @ts-expect-error: a cell is asked for by its id
    store.openCell({ id: 'id' })
    // @ts-expect-error: a cell comes from its store
    new Cell('id', () => {}, {})
  })

  test('has accounts and API keys, whose plaintext only creation shows', () => {
    expectTypeOf(store.apiKeys.create('account').key).toBeString()
    expectTypeOf(store.apiKeys.list('account')[0]).not.toHaveProperty('key')
    expectTypeOf(store.apiKeys.verify('key').accountId).toBeString()
    expectTypeOf(store.accounts.create({ name: 'acme' }).id).toBeString()
  })
})

describe('sql', () => {
  test('gives rows of the type that is asked for, or of plain values', () => {
    const result = cell.sql<User>('SELECT * FROM users WHERE age > ?', [30])
    expectTypeOf(result).toEqualTypeOf<SqlResult<User>>()
    expectTypeOf(result.rows).toEqualTypeOf<User[]>()
    expectTypeOf(result.columns).toEqualTypeOf<string[]>()
    expectTypeOf(result.changes).toBeNumber()
    expectTypeOf(result.lastInsertRowid).toEqualTypeOf<number | bigint | null>()
    expectTypeOf(cell.sql('SELECT 1').rows).toEqualTypeOf<SqlRow[]>()
    expectTypeOf<SqlRow[string]>().toEqualTypeOf<SqlValue>()
    expectTypeOf<SqlValue>().toEqualTypeOf<null | number | bigint | string | Uint8Array>()
  })

  test('takes positional and named parameters of the types that SQLite holds', () => {
    cell.sql('?', ['x', 1, 2n, null, true, new Uint8Array()])
    cell.sql(':a', { a: 'x', b: 1n })
    cell.sql('?', ['x'] as const)
    assertType<SqlParams>([Buffer.from('x')])
    // @ts-expect-error: a date has no one form in SQLite
    cell.sql('?', [new Date(0)])
    // @ts-expect-error: undefined is not NULL
    cell.sql('?', [undefined])
    // @ts-expect-error: an object is no value
    cell.sql('?', [{ a: 1 }])
    // @ts-expect-error: parameters come as a list or an object
    cell.sql('?', 'x')
    // @ts-expect-error: undefined is not NULL, by name either
    cell.sql(':a', { a: undefined })
    cell.sql('?', [{ type: 'real', value: 1 }])
    cell.sql(':a', { a: { type: 'real', value: 1 } })
  })

  test('takes a record whose type is an interface', () => {
    const user = {} as User
    expectTypeOf(cell.sql(':id, :name', user)).toEqualTypeOf<SqlResult<SqlRow>>()
    expectTypeOf(cell.sql(':id', user, { rowMode: 'array' })).toEqualTypeOf<SqlResult<SqlValue[]>>()
    expectTypeOf(cell.get(':id', user)).toEqualTypeOf<SqlRow | undefined>()
    const statement = cell.prepare<User>(':id')
    expectTypeOf(statement.get(user)).toEqualTypeOf<User | undefined>()
    expectTypeOf(statement.all(user)).toEqualTypeOf<User[]>()
    expectTypeOf(statement.iterate(user)).toExtend<Iterable<User>>()
    expectTypeOf(statement.run(user).changes).toBeNumber()
    statement.run(user.id, user.name, { type: 'real', value: 1 })
    statement.run([user.id, user.name])
    expectTypeOf(cell.sql<User>(':id', { ...user })).toEqualTypeOf<SqlResult<User>>()
    interface Event {
      at: Date
    }
    // @ts-expect-error: a date has no one form in SQLite
    cell.sql(':at', {} as Event)
    // @ts-expect-error: nor for a statement
    statement.run({} as Event)
    // @ts-expect-error: a date has no names
    cell.sql(':id', new Date())
    // @ts-expect-error: nor has a map
    cell.get(':id', new Map([['id', 1]]))
  })

  test('gives rows as arrays where the row mode says so', () => {
    const limits = { rowsMax: 1, bytesMax: 1 }
    const arrays = cell.sql('SELECT 1', [], { rowMode: 'array', limits })
    expectTypeOf(arrays).toEqualTypeOf<SqlResult<SqlValue[]>>()
    expectTypeOf(cell.sql('SELECT 1', undefined, { rowMode: 'array' }).rows).toEqualTypeOf<SqlValue[][]>()
    const pairs = cell.sql<[id: number, name: string]>('SELECT id, name FROM users', [], { rowMode: 'array' })
    expectTypeOf(pairs.rows[0]).toEqualTypeOf<[id: number, name: string] | undefined>()
    expectTypeOf(cell.sql<User>('SELECT 1', [], { rowMode: 'object' }).rows).toEqualTypeOf<User[]>()
    expectTypeOf(cell.sql('SELECT 1', [], { rowMode: undefined }).rows).toEqualTypeOf<SqlRow[]>()
    const decidedLater = {} as SqlOptions
    expectTypeOf(cell.sql('SELECT 1', [], decidedLater).rows).toEqualTypeOf<(SqlRow | SqlValue[])[]>()
    // @ts-expect-error: an array has no such members
    cell.sql<User>('SELECT 1', [], { rowMode: 'array' })
    // @ts-expect-error: no such row mode
    cell.sql('SELECT 1', [], { rowMode: 'map' })
  })

  test('takes a policy and limits for one call', () => {
    cell.sql('SELECT 1', [], { policy: 'tenant', limits: { rowsMax: 1, bytesMax: 1 } })
    // @ts-expect-error: no such policy
    cell.sql('SELECT 1', [], { policy: 'none' })
    // @ts-expect-error: both bounds, or none
    cell.sql('SELECT 1', [], { limits: { rowsMax: 1 } })
  })
})

describe('transactions', () => {
  test('return what their function returns', () => {
    expectTypeOf(cell.transaction(() => 7)).toBeNumber()
    expectTypeOf(cell.transaction(() => cell.kv.get('k'))).toEqualTypeOf<string | undefined>()
    expectTypeOf(cell.commit(() => 'x')).resolves.toBeString()
    expectTypeOf(cell.commit(() => cell.kv.incr('n'))).resolves.toEqualTypeOf<number | bigint>()
    expectTypeOf(cell.transaction(() => {})).toBeVoid()
    expectTypeOf(cell.transaction(() => ({}) as unknown)).toBeUnknown()
    expectTypeOf(cell.transaction(() => ({}) as User | null)).toEqualTypeOf<User | null>()
    const fails = () =>
      cell.transaction(() => {
        throw new Error('x')
      })
    expectTypeOf(fails).returns.toBeNever()
  })

  test('of migrations are neither async nor generators', () => {
    // @ts-expect-error: nothing of it would be in the transaction
    cell.migrate([async () => {}])
    // @ts-expect-error: nor among others
    cell.migrate(['CREATE TABLE t (a)', async (cell) => void cell.exec('')])
    // @ts-expect-error: nothing of it would run
    cell.migrate([function* () {}])
    // @ts-expect-error: nor of this
    cell.migrate([async function* () {}])
  })

  test('may return what they like, and are passed on by generic functions', () => {
    cell.migrate([
      (cell) => cell.sql('SELECT 1'),
      (cell) => cell.kv.get('k'),
      (cell) => void cell.exec(''),
      () => {},
      (cell) => {
        if (cell.name === null) return
        cell.get<User>('SELECT 1')
      },
    ])
    function inTransaction<T>(work: () => T): T {
      return cell.transaction(work)
    }
    expectTypeOf(inTransaction(() => 7)).toBeNumber()
  })
})

describe('kv', () => {
  test('has values of text, and undefined for what is not there', () => {
    expectTypeOf(cell.kv).toEqualTypeOf<Kv>()
    expectTypeOf(cell.kv.get('k')).toEqualTypeOf<string | undefined>()
    expectTypeOf(cell.kv.entry('k')).toEqualTypeOf<KvEntry | undefined>()
    expectTypeOf(cell.kv.put('k', 'v', { ttlSeconds: 60 })).toEqualTypeOf<KvPutResult>()
    expectTypeOf(cell.kv.put('k', 'v').created).toBeBoolean()
    expectTypeOf(cell.kv.delete('k')).toBeBoolean()
    expectTypeOf(cell.kv.incr('n')).toEqualTypeOf<number | bigint>()
    expectTypeOf(cell.kv.incr('n', 2n ** 60n)).toEqualTypeOf<number | bigint>()
    expectTypeOf(cell.kv.ttl(['k'])).toEqualTypeOf<(number | null)[]>()
    expectTypeOf(cell.kv.entry(['k'])).toEqualTypeOf<(KvEntry | undefined)[]>()
    expectTypeOf(cell.kv.get(['k'])).toEqualTypeOf<(string | undefined)[]>()
    expectTypeOf(cell.kv.put([{ key: 'k', value: 'v', ttlSeconds: 1 }])).toEqualTypeOf<KvPutResult[]>()
    expectTypeOf(cell.kv.delete(['k'])).toEqualTypeOf<boolean[]>()
    expectTypeOf(cell.kv.getdel('k')).toEqualTypeOf<KvEntry | undefined>()
    expectTypeOf(cell.kv.getdel(['k'])).toEqualTypeOf<(KvEntry | undefined)[]>()
    expectTypeOf(cell.kv.ttl('k')).toEqualTypeOf<number | null>()
    cell.kv.put('k', 'v', { ifVersion: cell.kv.entry('k')?.version ?? null })
    // @ts-expect-error: without a null, a missing entry would be put whatever is there
    cell.kv.put('k', 'v', { ifVersion: cell.kv.entry('k')?.version })
    // @ts-expect-error: there is nothing to delete
    cell.kv.delete('k', { ifVersion: null })
    expectTypeOf(cell.kv.keys({ prefix: 'a' })).toExtend<AsyncIterable<string>>()
    expectTypeOf(cell.kv.list({ prefix: 'a', limit: 10, reverse: true })).toEqualTypeOf<
      Paged<KvPage<KvEntry>, KvEntry>
    >()
    expectTypeOf(cell.kv.list().entries[0]).toEqualTypeOf<KvEntry | undefined>()
    expectTypeOf(cell.kv.list({ values: false })).toEqualTypeOf<Paged<KvPage, KvListEntry>>()
    expectTypeOf(cell.kv.list({ values: {} as boolean })).toEqualTypeOf<Paged<KvPage, KvListEntry>>()
    expectTypeOf(cell.kv.getJson<{ a: number }>('k')).toEqualTypeOf<{ a: number } | undefined>()
    expectTypeOf(cell.kv.getJson('k')).toBeUnknown()
    cell.kv.putJson('k', { a: 1 }, { ttlMs: 500 })
    cell.kv.expire('k', null)
    // @ts-expect-error: a value is text; putJson is for others
    cell.kv.put('k', 7)
    // @ts-expect-error: a key is text
    cell.kv.get(7)
    // @ts-expect-error: a misspelt option
    cell.kv.put('k', 'v', { ttl: 60 })
    // @ts-expect-error: expire is told how long, or null
    cell.kv.expire('k')
  })
})

describe('backups', () => {
  test('are made, listed and restored by version', () => {
    expectTypeOf(store.backups).toEqualTypeOf<BackupManager>()
    expectTypeOf(store.backups.snapshot('id')).resolves.toEqualTypeOf<BackupResult>()
    expectTypeOf(store.backups.incremental('id')).resolves.toEqualTypeOf<BackupResult>()
    expectTypeOf(store.backups.restore('id', { version: 'v' })).resolves.toEqualTypeOf<RestoreResult>()
    expectTypeOf<BackupResult['version']>().toBeString()
    expectTypeOf<BackupResult['baseVersion']>().toEqualTypeOf<string | null>()
    expectTypeOf(store.backups.restore).parameter(1).extract<object>().toHaveProperty('version')
    expectTypeOf<InstanceType<typeof FileObjectStore>>().toExtend<ObjectStore>()
    expectTypeOf<InstanceType<typeof S3ObjectStore>>().toExtend<ObjectStore>()
    // @ts-expect-error: it comes with a store
    new BackupManager()
  })
})

describe('HTTP', () => {
  test('is a fetch handler and a node:http listener over a store', () => {
    const handler = createHandler(store)
    expectTypeOf(handler(new Request('http://x'))).resolves.toEqualTypeOf<Response>()
    expectTypeOf(createListener(store)).toBeFunction()
  })
})

describe('errors', () => {
  test('are told apart by a closed union of codes', () => {
    const error: unknown = new Error('x')
    if (isCellError(error)) {
      expectTypeOf(error).toEqualTypeOf<CellError>()
      expectTypeOf(error.code).toEqualTypeOf<CellErrorCode>()
      expectTypeOf(error.kind).toEqualTypeOf<CellErrorKind>()
    }
    isCellError(error, 'cell_not_found')
    // @ts-expect-error: no such code
    isCellError(error, 'cell_lost')
    expectTypeOf(new CellError('busy', 'Try again.').code).toEqualTypeOf<CellErrorCode>()
    expectTypeOf<'store_locked'>().toExtend<CellErrorCode>()
    expectTypeOf<'no_such_code'>().not.toExtend<CellErrorCode>()
    expectTypeOf<CellErrorKind>().toEqualTypeOf<
      'request' | 'absent' | 'conflict' | 'retry' | 'data' | 'closed' | 'internal'
    >()
  })
})
