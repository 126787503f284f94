import { type Generated, Kysely, SqliteDialect } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { expect, onTestFinished, test } from 'vitest'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'

interface Schema {
  person: { id: Generated<number>; name: string; age: number | null }
  pet: { name: string; owner_id: number }
}

/** As docs/sql.md shows it. */
function kyselyOf(cell: Cell): Kysely<Schema> {
  const database = { prepare: (sql: string) => cell.prepare<unknown>(sql) as never, close() {} }
  const db = new Kysely<Schema>({ dialect: new SqliteDialect({ database }) })
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

const migratorOf = (db: Kysely<Schema>) =>
  new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } })

test('Kysely’s migrator goes up, finds nothing more to do, and goes down', async () => {
  const { cell } = await openTestCell()
  const migrator = migratorOf(kyselyOf(cell))
  const { error, results } = await migrator.migrateToLatest()
  expect([error, results?.map(({ status }) => status)]).toEqual([undefined, ['Success', 'Success']])
  expect((await migrator.migrateToLatest()).results).toEqual([])
  expect((await migrator.migrateDown()).results?.map(({ migrationName }) => migrationName)).toEqual(['2-pet'])
  const done = (await migrator.getMigrations()).map(({ executedAt }) => executedAt !== undefined)
  expect(done).toEqual([true, false])
})

test('Kysely’s introspector finds the tables and columns', async () => {
  const { cell } = await openTestCell()
  const db = kyselyOf(cell)
  await migratorOf(db).migrateToLatest()
  const tables = await db.introspection.getTables()
  const person = tables.find(({ name }) => name === 'person')
  expect(tables.map(({ name }) => name)).toEqual(expect.arrayContaining(['person', 'pet']))
  expect(person?.columns.map(({ name, dataType, isNullable }) => ({ name, dataType, isNullable }))).toEqual([
    { name: 'id', dataType: 'INTEGER', isNullable: expect.any(Boolean) },
    { name: 'name', dataType: 'TEXT', isNullable: false },
    { name: 'age', dataType: 'INTEGER', isNullable: true },
  ])
})

test('queries, changes, RETURNING and streams work; a transaction is refused with what to do', async () => {
  const { cell } = await openTestCell()
  const db = kyselyOf(cell)
  await migratorOf(db).migrateToLatest()
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
  const failed = rejectedBy(db.transaction().execute((trx) => trx.deleteFrom('person').execute()))
  expect((await failed).message).toContain('use cell.transaction()')
  // Instead: Kysely builds the queries, and the cell runs them in its transaction.
  const older = db
    .updateTable('person')
    .set((eb) => ({ age: eb('age', '+', 1) }))
    .where('name', '=', 'Ann')
    .compile()
  cell.transaction(() => cell.prepare(older.sql).run(older.parameters as string[]))
  expect(await db.selectFrom('person').select('age').where('id', '=', 1).executeTakeFirst()).toEqual({
    age: 32,
  })
})

test('a loop that drops every table which the introspector finds leaves a working cell', async () => {
  const { cell, store } = await openTestCell()
  const db = kyselyOf(cell)
  await migratorOf(db).migrateToLatest()
  cell.kv.put('kept', 'yes')
  for (const { name } of await db.introspection.getTables({ withInternalKyselyTables: true })) {
    const drop = () => cell.sql(`DROP TABLE "${name}"`)
    if (name.startsWith('_cell')) expect(codeOf(drop)).toBe('statement_not_allowed')
    else drop()
  }
  expect((await db.introspection.getTables()).filter(({ name }) => !name.startsWith('_cell'))).toEqual([])
  expect(cell.kv.get('kept')).toBe('yes')
  expect((await migratorOf(db).migrateToLatest()).error).toBeUndefined()
  expect(store.openCell(cell.id).get('SELECT count(*) AS n FROM person')).toEqual({ n: 0 })
})
