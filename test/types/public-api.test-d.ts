import { expectTypeOf, test } from 'vitest'
import {
  type ApiKeys,
  type BackupManager,
  type Cell,
  CellError,
  type CellErrorCode,
  CellStore,
  createHandler,
  createListener,
  FileObjectStore,
  type KvPutResult,
  type ObjectStore,
  S3ObjectStore,
  type SqlValue,
} from '../../src/index.ts'

declare const store: CellStore
declare const cell: Cell

test('a store is made, opened and closed with promises; its cells are there at once', () => {
  expectTypeOf(CellStore.create).returns.resolves.toEqualTypeOf<CellStore>()
  expectTypeOf(
    CellStore.open('./data', { objectStore: 's3://bucket/prefix' }),
  ).resolves.toEqualTypeOf<CellStore>()
  expectTypeOf(store.createCell({ name: 'acme' })).toExtend<Cell>()
  expectTypeOf(store.openCell('id')).toEqualTypeOf<Cell>()
  expectTypeOf(store.deleteCell('id')).toBeVoid()
  expectTypeOf(store.close()).resolves.toBeVoid()
  expectTypeOf(store.backups).toEqualTypeOf<BackupManager>()
  expectTypeOf(store.apiKeys).toEqualTypeOf<ApiKeys>()
  // @ts-expect-error a durability has a name
  void CellStore.create('./data', { durability: 'fast' })
})

test('rows are of the type that the caller names, and of SQL values without one', () => {
  expectTypeOf(cell.sql<{ id: number }>('SELECT 1 AS id').rows).toEqualTypeOf<{ id: number }[]>()
  expectTypeOf(cell.sql('SELECT 1').rows[0]).toEqualTypeOf<Record<string, SqlValue> | undefined>()
  expectTypeOf(cell.sql('SELECT 1').lastInsertRowid).toEqualTypeOf<number | bigint | null>()
  cell.sql('SELECT ?, ?', [1n, new Uint8Array()])
  cell.sql('SELECT :a', { a: true })
  // @ts-expect-error undefined is no SQL value
  cell.sql('SELECT ?', [undefined])
  // @ts-expect-error nor is a Date
  cell.sql('SELECT ?', [new Date()])
})

test('entries are text, and times to live numbers', () => {
  expectTypeOf(cell.kv.get('key')).toEqualTypeOf<string | undefined>()
  expectTypeOf(cell.kv.put('key', 'value', { ttlSeconds: 60 })).toEqualTypeOf<KvPutResult>()
  expectTypeOf(cell.kv.incr('key')).toEqualTypeOf<number | bigint>()
  expectTypeOf(cell.kv.ttl(['key'])).toEqualTypeOf<(number | null)[]>()
  expectTypeOf(cell.kv.getJson<{ a: 1 }>('key')).toEqualTypeOf<{ a: 1 } | undefined>()
  // @ts-expect-error a value is a string
  cell.kv.put('key', 1)
})

test('a transaction returns what its function does, and a commit a promise of it', () => {
  expectTypeOf(cell.transaction(() => 7)).toBeNumber()
  expectTypeOf(cell.commit(() => 'text')).resolves.toBeString()
})

test('backups and restores name versions', () => {
  expectTypeOf(store.backups.snapshot('id')).resolves.toHaveProperty('version').toBeString()
  expectTypeOf(store.backups.incremental('id'))
    .resolves.toHaveProperty('baseVersion')
    .toEqualTypeOf<string | null>()
  expectTypeOf(store.backups.restore).parameter(1).extract<object>().toHaveProperty('version')
  expectTypeOf(FileObjectStore).instance.toExtend<ObjectStore>()
  expectTypeOf(S3ObjectStore).instance.toExtend<ObjectStore>()
})

test('handlers are functions of what their frameworks give', () => {
  expectTypeOf(createHandler(store)).returns.resolves.toEqualTypeOf<Response>()
  expectTypeOf(createListener(store)).toBeFunction()
})

test('errors have a closed union of codes', () => {
  const error = new CellError('busy', 'Try again.')
  expectTypeOf(error.code).toEqualTypeOf<CellErrorCode>()
  expectTypeOf<'cell_not_found'>().toExtend<CellErrorCode>()
  expectTypeOf<'no_such_code'>().not.toExtend<CellErrorCode>()
})
