import fs from 'node:fs'
import path from 'node:path'
import { eq, relations, sql } from 'drizzle-orm'
import { blob, integer, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { expect, test } from 'vitest'
import { drizzle, migrate } from '../../src/adapters/drizzle.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { thrownBy } from '../support/thrown.ts'

const users = sqliteTable('users', {
  id: integer().primaryKey(),
  name: text().notNull().unique(),
  score: real(),
  isAdmin: integer({ mode: 'boolean' }).notNull().default(false),
  joined: integer({ mode: 'timestamp_ms' }),
  photo: blob({ mode: 'buffer' }),
  settings: blob({ mode: 'json' }).$type<{ dark: boolean }>(),
  credit: blob({ mode: 'bigint' }),
})
const posts = sqliteTable('posts', {
  id: integer().primaryKey(),
  title: text().notNull(),
  authorId: integer()
    .notNull()
    .references(() => users.id, { onDelete: 'cascade' }),
})
const schema = {
  users,
  posts,
  userRelations: relations(users, ({ many }) => ({ posts: many(posts) })),
  postRelations: relations(posts, ({ one }) => ({
    author: one(users, { fields: [posts.authorId], references: [users.id] }),
  })),
}

/** As drizzle-kit writes them. */
const FIRST = `CREATE TABLE \`users\` (
	\`id\` integer PRIMARY KEY NOT NULL,
	\`name\` text NOT NULL,
	\`score\` real,
	\`isAdmin\` integer DEFAULT false NOT NULL,
	\`joined\` integer,
	\`photo\` blob,
	\`settings\` blob,
	\`credit\` blob
);
--> statement-breakpoint
CREATE UNIQUE INDEX \`users_name_unique\` ON \`users\` (\`name\`);--> statement-breakpoint
CREATE TABLE \`posts\` (
	\`id\` integer PRIMARY KEY NOT NULL,
	\`title\` text NOT NULL,
	\`authorId\` integer NOT NULL,
	FOREIGN KEY (\`authorId\`) REFERENCES \`users\`(\`id\`) ON UPDATE no action ON DELETE cascade
);
`
const REBUILD = `PRAGMA foreign_keys=OFF;--> statement-breakpoint
CREATE TABLE \`__new_users\` (\`id\` integer PRIMARY KEY NOT NULL, \`name\` text NOT NULL, \`age\` integer);
--> statement-breakpoint
INSERT INTO \`__new_users\`("id", "name") SELECT "id", "name" FROM \`users\`;--> statement-breakpoint
DROP TABLE \`users\`;--> statement-breakpoint
ALTER TABLE \`__new_users\` RENAME TO \`users\`;--> statement-breakpoint
PRAGMA foreign_keys=ON;`

/** A folder of drizzle-kit, with these migrations. */
function migrationsFolder(...migrations: string[]): string {
  const folder = path.join(tempDirectory(), 'drizzle')
  fs.mkdirSync(path.join(folder, 'meta'), { recursive: true })
  const entries = migrations.map((_, idx) => ({
    ...{ idx, version: '6', when: 1_700_000_000_000 + idx },
    ...{ tag: `000${idx}_step`, breakpoints: true },
  }))
  const journal = { version: '7', dialect: 'sqlite', entries }
  fs.writeFileSync(path.join(folder, 'meta', '_journal.json'), JSON.stringify(journal))
  for (const [i, text] of migrations.entries()) fs.writeFileSync(path.join(folder, `000${i}_step.sql`), text)
  return folder
}

async function openDrizzle() {
  const { cell, store } = await openTestCell()
  migrate(cell, { migrationsFolder: migrationsFolder(FIRST) })
  return { cell, store, db: drizzle(cell, { schema }) }
}

test('queries and changes work, with values of every kind', async () => {
  const { db, cell } = await openDrizzle()
  const ann = {
    ...{ id: 1, name: 'Ann', score: 1, isAdmin: true, joined: new Date(1_700_000_000_123) },
    ...{ photo: Buffer.from([0, 255]), settings: { dark: true }, credit: 2n ** 80n },
  }
  db.insert(users).values(ann).run()
  expect(db.select().from(users).all()).toEqual([ann])
  expect(cell.get('SELECT typeof(score) AS score, typeof(id) AS id FROM users')).toEqual({
    score: 'real',
    id: 'integer',
  })
  expect(db.insert(users).values({ name: 'Bob' }).returning({ id: users.id }).get()).toEqual({ id: 2 })
  const [renamed] = db.update(users).set({ name: 'Rob' }).where(eq(users.id, 2)).returning().all()
  expect(renamed).toMatchObject({ name: 'Rob', isAdmin: false, photo: null, credit: null })
  const byName = db
    .select({ id: users.id })
    .from(users)
    .where(eq(users.name, sql.placeholder('name')))
    .prepare()
  expect([byName.get({ name: 'Rob' }), byName.get({ name: 'Bob' })]).toEqual([{ id: 2 }, undefined])
  expect(db.get(sql`SELECT count(*) AS n FROM ${users}`)).toEqual({ n: 2 })
  expect(db.values(sql`SELECT id FROM ${users} ORDER BY id`)).toEqual([[1], [2]])
  expect(() => db.insert(users).values({ name: 'Ann' }).run()).toThrow()
  expect(db.$count(users)).toBeDefined()
})

test('relational queries work', async () => {
  const { db } = await openDrizzle()
  db.insert(users)
    .values([{ name: 'Ann' }, { name: 'Bob' }])
    .run()
  db.insert(posts)
    .values([
      { title: 'One', authorId: 1 },
      { title: 'Two', authorId: 1 },
    ])
    .run()
  const found = db.query.users.findMany({ columns: { name: true }, with: { posts: true } }).sync()
  expect(found).toEqual([
    {
      name: 'Ann',
      posts: [
        { id: 1, title: 'One', authorId: 1 },
        { id: 2, title: 'Two', authorId: 1 },
      ],
    },
    { name: 'Bob', posts: [] },
  ])
  const first = db.query.posts.findFirst({ with: { author: true }, where: eq(posts.title, 'Two') }).sync()
  expect(first?.author.name).toBe('Ann')
})

test('transactions nest, and keep or undo all of their changes, also those of the entries', async () => {
  const { db, cell } = await openDrizzle()
  const add = (name: string) => db.insert(users).values({ name }).run()
  const kept = db.transaction((tx) => {
    tx.insert(users).values({ name: 'Ann' }).run()
    cell.kv.put('last', 'Ann')
    const undone = () =>
      tx.transaction((inner) => {
        inner.insert(users).values({ name: 'Bob' }).run()
        inner.rollback()
      })
    expect(undone).toThrow('Rollback')
    tx.transaction((inner) => inner.insert(users).values({ name: 'Cid' }).run())
    return tx.select({ name: users.name }).from(users).all()
  })
  expect(kept).toEqual([{ name: 'Ann' }, { name: 'Cid' }])
  const failing = () =>
    db.transaction(() => {
      add('Dan')
      cell.kv.put('last', 'Dan')
      throw new Error('no')
    })
  expect(failing).toThrow('no')
  expect([db.select().from(users).all().length, cell.kv.get('last')]).toEqual([2, 'Ann'])
  expect(() => db.transaction(async () => add('Eve'))).toThrow('must not be async')
  expect(db.select().from(users).all()).toHaveLength(2)
})

test('migrations run once each, and a rebuilt table keeps the rows that refer to it', async () => {
  const { db, cell, store } = await openDrizzle()
  db.insert(users).values({ id: 7, name: 'Ann' }).run()
  db.insert(posts).values({ title: 'One', authorId: 7 }).run()
  const both = { migrationsFolder: migrationsFolder(FIRST, REBUILD) }
  migrate(cell, both)
  migrate(store.openCell(cell.id), both)
  expect(cell.sql('SELECT * FROM users').rows).toEqual([{ id: 7, name: 'Ann', age: null }])
  expect(db.select().from(posts).all()).toEqual([{ id: 1, title: 'One', authorId: 7 }])
  expect(cell.sql('SELECT created_at, length(hash) AS hash FROM __drizzle_migrations').rows).toEqual([
    { created_at: 1_700_000_000_000, hash: 64 },
    { created_at: 1_700_000_000_001, hash: 64 },
  ])
  // Foreign keys are on again.
  expect(() => db.insert(posts).values({ title: 'Two', authorId: 8 }).run()).toThrow()
})

test('migrations that fail leave nothing', async () => {
  const { cell } = await openDrizzle()
  cell.sql("INSERT INTO users (id, name) VALUES (1, 'Ann')")
  cell.sql("INSERT INTO posts (title, authorId) VALUES ('One', 1)")
  const before = cell.sql('SELECT name, sql FROM sqlite_schema ORDER BY name').rows
  const orphans = 'ALTER TABLE users ADD age integer;--> statement-breakpoint\nDELETE FROM users;'
  const run = (...migrations: string[]) =>
    thrownBy(() => migrate(cell, { migrationsFolder: migrationsFolder(FIRST, ...migrations) }))
  expect(run(orphans)).toMatchObject({
    code: 'constraint_violation',
    message: expect.stringContaining('posts'),
  })
  expect(run('CREATE TABLE a (b integer);', 'nonsense').code).toBe('sql_error')
  expect(cell.sql('SELECT name, sql FROM sqlite_schema ORDER BY name').rows).toEqual(before)
  expect(cell.sql('SELECT name FROM users').rows).toEqual([{ name: 'Ann' }])
  expect(cell.sql('SELECT count(*) AS n FROM __drizzle_migrations').rows).toEqual([{ n: 1 }])
  expect(cell.get('PRAGMA foreign_keys')).toEqual({ foreign_keys: 1 })
  const inside = () => cell.transaction(() => migrate(cell, { migrationsFolder: migrationsFolder(FIRST) }))
  expect(thrownBy(inside).code).toBe('invalid_request')
  expect(() => migrate(cell, { migrationsFolder: tempDirectory() })).toThrow('_journal.json')
})

test('a table of migrations of another name is used', async () => {
  const { cell } = await openTestCell()
  const config = { migrationsFolder: migrationsFolder(FIRST), migrationsTable: 'my "own"' }
  migrate(cell, config)
  migrate(cell, config)
  expect(cell.sql('SELECT count(*) AS n FROM "my ""own"""').rows).toEqual([{ n: 1 }])
})
