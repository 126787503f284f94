import { type Generated, Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CellDialect, type CellDialectOptions } from '../../src/adapters/kysely.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'

interface Schema {
  person: { id: Generated<number>; name: string; age: number | null }
  pet: { name: string; owner_id: number }
}

function kyselyOf(cell: Cell, options?: CellDialectOptions): Kysely<Schema> {
  const db = new Kysely<Schema>({ dialect: new CellDialect(cell, options) })
  onTestFinished(() => db.destroy())
  return db
}

const MIGRATIONS: Record<string, Migration> = {
  '1-person': {
    up: (db) =>
      db.schema
        .createTable('person')
        .addColumn('id', 'integer', (column) => column.primaryKey())
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('age', 'integer')
        .execute(),
    down: (db) => db.schema.dropTable('person').execute(),
  },
  '2-pet': {
    up: (db) =>
      db.schema
        .createTable('pet')
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('owner_id', 'integer', (column) => column.notNull().references('person.id'))
        .execute(),
    down: (db) => db.schema.dropTable('pet').execute(),
  },
}

const migratorOf = (db: Kysely<Schema>, migrations = MIGRATIONS) =>
  new Migrator({ db, provider: { getMigrations: async () => migrations } })

async function openKysely(options?: CellDialectOptions) {
  const { cell, store, clock } = await openTestCell()
  const db = kyselyOf(cell, options)
  await migratorOf(db).migrateToLatest()
  const add = (name: string, on: Kysely<Schema> = db) =>
    on.insertInto('person').values({ name, age: null }).execute()
  const names = async (on: Kysely<Schema> = db) =>
    (await on.selectFrom('person').select('name').orderBy('id').execute()).map(({ name }) => name)
  return { cell, store, clock, db, add, names }
}

describe('migrations', () => {
  test('go up, find nothing more to do, and go down', async () => {
    const { cell } = await openTestCell()
    const migrator = migratorOf(kyselyOf(cell))
    const { error, results } = await migrator.migrateToLatest()
    expect([error, results?.map(({ status }) => status)]).toEqual([undefined, ['Success', 'Success']])
    expect((await migrator.migrateToLatest()).results).toEqual([])
    expect((await migrator.migrateDown()).results?.map(({ migrationName }) => migrationName)).toEqual([
      '2-pet',
    ])
    const done = (await migrator.getMigrations()).map(({ executedAt }) => executedAt !== undefined)
    expect(done).toEqual([true, false])
  })

  test('leave nothing if one fails', async () => {
    const { cell } = await openTestCell()
    const db = kyselyOf(cell)
    const failing = { up: async () => Promise.reject(new Error('no')) }
    const { error } = await migratorOf(db, { ...MIGRATIONS, '3-no': failing }).migrateToLatest()
    expect(error).toMatchObject({ message: 'no' })
    expect(await db.introspection.getTables()).toEqual([])
    const two = await Promise.all([migratorOf(db).migrateToLatest(), migratorOf(db).migrateToLatest()])
    expect(two.map(({ error, results }) => [error, results?.length])).toEqual([
      [undefined, 2],
      [undefined, 0],
    ])
  })

  test('can rebuild a table to which others refer, with foreign keys off, outside of a transaction', async () => {
    const { cell, db, add } = await openKysely()
    await add('Ann')
    await db.insertInto('pet').values({ name: 'Rex', owner_id: 1 }).execute()
    const rebuild: Migration = {
      async up(any) {
        await sql`PRAGMA foreign_keys = OFF`.execute(any)
        await sql`CREATE TABLE person_2 (id INTEGER PRIMARY KEY, name TEXT)`.execute(any)
        await sql`INSERT INTO person_2 SELECT id, name FROM person`.execute(any)
        await any.schema.dropTable('person').execute()
        await any.schema.alterTable('person_2').renameTo('person').execute()
        await sql`PRAGMA foreign_keys = ON`.execute(any)
      },
    }
    const migrator = migratorOf(db, { ...MIGRATIONS, '3-rebuild': rebuild })
    expect((await migrator.migrateToLatest()).error).toMatchObject({ code: 'statement_not_allowed' })
    expect((await migrator.migrateToLatest({ disableTransactions: true })).error).toBeUndefined()
    expect(cell.sql('SELECT * FROM person JOIN pet ON owner_id = id').rows).toHaveLength(1)
    expect(cell.get('PRAGMA foreign_keys')).toEqual({ foreign_keys: 1 })
  })
})

describe('the introspector', () => {
  test('finds the tables and columns, and not those of the engine', async () => {
    const { db } = await openKysely()
    const tables = await db.introspection.getTables()
    expect(tables.map(({ name }) => name)).toEqual(['person', 'pet'])
    const columns = tables[0]?.columns.map(({ name, dataType, isNullable }) => [name, dataType, isNullable])
    expect(columns).toEqual([
      ['id', 'INTEGER', true],
      ['name', 'TEXT', false],
      ['age', 'INTEGER', true],
    ])
    const all = await db.introspection.getTables({ withInternalKyselyTables: true })
    expect(all.map(({ name }) => name)).toEqual([
      'kysely_migration',
      'kysely_migration_lock',
      'person',
      'pet',
    ])
  })

  test('gives what a loop can drop, and then the cell works on', async () => {
    const { cell, db, store } = await openKysely()
    cell.kv.put('kept', 'yes')
    const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
    for (const { name } of tables.toReversed()) await db.schema.dropTable(name).execute()
    expect(await db.introspection.getTables()).toEqual([])
    expect(codeOf(() => cell.sql('DROP TABLE _cell_kv'))).toBe('statement_not_allowed')
    expect(cell.kv.get('kept')).toBe('yes')
    expect((await migratorOf(db).migrateToLatest()).error).toBeUndefined()
    expect(store.openCell(cell.id).get('SELECT count(*) AS n FROM person')).toEqual({ n: 0 })
  })
})

test('queries, changes, RETURNING, streams and PRAGMAs work', async () => {
  const { cell, db } = await openKysely()
  const [inserted] = await db.insertInto('person').values({ name: 'Ann', age: 31 }).execute()
  expect(inserted).toMatchObject({ insertId: 1n, numInsertedOrUpdatedRows: 1n })
  const bob = await db
    .insertInto('person')
    .values({ name: 'Bob', age: null })
    .returning('id')
    .executeTakeFirstOrThrow()
  expect(bob).toEqual({ id: 2 })
  const names: string[] = []
  for await (const { name } of db.selectFrom('person').select('name').orderBy('name').stream())
    names.push(name)
  expect(names).toEqual(['Ann', 'Bob'])
  const older = await db
    .updateTable('person')
    .set((eb) => ({ age: eb('age', '+', 1) }))
    .where('age', 'is not', null)
    .executeTakeFirst()
  expect(older.numUpdatedRows).toBe(1n)
  expect((await db.deleteFrom('person').executeTakeFirst()).numDeletedRows).toBe(2n)
  expect((await sql<{ n: number }>`SELECT ${2n ** 60n} AS n`.execute(db)).rows).toEqual([{ n: 2n ** 60n }])
  await sql`PRAGMA user_version = 7`.execute(db)
  expect(cell.get('PRAGMA user_version')).toEqual({ user_version: 7 })
  const unfit = db
    .insertInto('person')
    .values({ name: new Date(0) as never, age: 1 })
    .execute()
  expect((await rejectedBy(unfit)).code).toBe('invalid_parameter')
  await db.destroy()
  expect(cell.get('SELECT count(*) AS n FROM person')).toEqual({ n: 0 })
})

describe('a transaction', () => {
  test('waits for what is awaited in it, and keeps all of its changes or none', async () => {
    const { cell, db, add, names } = await openKysely()
    const result = await db.transaction().execute(async (trx) => {
      await add('Ann', trx)
      await new Promise((resolve) => setImmediate(resolve))
      await add('Bob', trx)
      // Others read what is committed.
      expect([await names(trx), await names(), cell.sql('SELECT * FROM person').rows]).toEqual([
        ['Ann', 'Bob'],
        [],
        [],
      ])
      const streamed: string[] = []
      for await (const { name } of trx.selectFrom('person').select('name').stream()) streamed.push(name)
      return streamed
    })
    expect([result, await names()]).toEqual([
      ['Ann', 'Bob'],
      ['Ann', 'Bob'],
    ])
    const failing = db.transaction().execute(async (trx) => {
      await add('Cid', trx)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    const refused = db.transaction().execute(async (trx) => {
      await add('Dan', trx)
      await trx.insertInto('pet').values({ name: 'Rex', owner_id: 99 }).execute()
    })
    expect((await rejectedBy(refused)).code).toBe('constraint_violation')
    expect(await names()).toEqual(['Ann', 'Bob'])
  })

  test('makes the changes and transactions of others wait for its end', async () => {
    const { db, add, names } = await openKysely()
    const { promise, resolve } = Promise.withResolvers<void>()
    const first = db.transaction().execute(async (trx) => {
      await add('Ann', trx)
      await promise
    })
    const others = [
      add('Bob'),
      sql`INSERT INTO person (name) VALUES ('Cid')`.execute(db),
      db.transaction().execute((trx) => add('Dan', trx)),
    ]
    expect(await names()).toEqual([])
    resolve()
    await Promise.all([first, ...others])
    expect((await names()).toSorted()).toEqual(['Ann', 'Bob', 'Cid', 'Dan'])
    expect((await names())[0]).toBe('Ann')
  })

  test('has savepoints, one inside the other', async () => {
    const { db, add, names } = await openKysely()
    const trx = await db.startTransaction().execute()
    await add('Ann', trx)
    const outer = await trx.savepoint('outer').execute()
    await add('Bob', outer)
    const inner = await outer.savepoint('inner').execute()
    await add('Cid', inner)
    await inner.rollbackToSavepoint('inner').execute()
    await add('Dan', inner)
    await inner.releaseSavepoint('inner').execute()
    const again = await trx.savepoint('again').execute()
    await add('Eve', again)
    await again.rollbackToSavepoint('outer' as never).execute()
    await add('Fay', trx)
    expect((await rejectedBy(trx.rollbackToSavepoint('x' as never).execute())).code).toBe('sql_error')
    await trx.commit().execute()
    expect(await names()).toEqual(['Ann', 'Fay'])
    const undone = await db.startTransaction().execute()
    await add('Gus', undone)
    await undone.rollback().execute()
    expect(await names()).toEqual(['Ann', 'Fay'])
  })

  test('leaves its connection as it was', async () => {
    const { cell, db, add, names } = await openKysely()
    await db.connection().execute(async (connection) => {
      await connection.transaction().execute((trx) => add('Ann', trx))
      await add('Bob', connection)
      const failing = connection.transaction().execute(async (trx) => {
        await add('Cid', trx)
        throw new Error('no')
      })
      await expect(failing).rejects.toThrow('no')
      expect([await names(connection), cell.get('SELECT count(*) AS n FROM person')]).toEqual([
        ['Ann', 'Bob'],
        { n: 2 },
      ])
    })
  })

  test('that only reads changes nothing', async () => {
    const { db, add, names } = await openKysely()
    const reading = db
      .transaction()
      .setAccessMode('read only')
      .execute(async (trx) => {
        await add('Ann')
        expect([await names(trx), await names()]).toEqual([[], ['Ann']])
        await add('Bob', trx)
      })
    expect((await rejectedBy(reading)).code).toBe('forbidden')
    expect(await names()).toEqual(['Ann'])
  })

  test('is rolled back at its deadline, and nothing after that is committed', async () => {
    const { clock, db, add, names } = await openKysely({ transactionTimeoutMs: 1_000 })
    const late = db.transaction().execute(async (trx) => {
      await add('Ann', trx)
      clock.advance(1_000)
      await add('Bob', trx)
    })
    expect((await rejectedBy(late)).code).toBe('transaction_timeout')
    const silent = db.transaction().execute(async (trx) => {
      await add('Ann', trx)
      clock.advance(1_000)
    })
    expect((await rejectedBy(silent)).code).toBe('transaction_timeout')
    expect(await names()).toEqual([])
    const itself = db.transaction().execute(async () => {
      const change = add('Cid')
      clock.advance(1_000)
      await change
    })
    expect((await rejectedBy(itself)).code).toBe('transaction_timeout')
    expect(await names()).toEqual(['Cid'])
  })
})
