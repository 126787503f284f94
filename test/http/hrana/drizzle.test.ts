import fs from 'node:fs'
import path from 'node:path'
import { createClient } from '@libsql/client'
import { eq, relations } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/libsql'
import { migrate } from 'drizzle-orm/libsql/migrator'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PLACES, serveCell } from '../../support/http/hrana-cell.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const users = sqliteTable('users', {
  id: integer('id').primaryKey(),
  name: text('name').notNull().unique(),
})
const posts = sqliteTable('posts', {
  id: integer('id').primaryKey(),
  userId: integer('user_id').references(() => users.id, { onDelete: 'cascade' }),
  title: text('title'),
})
const schema = {
  users,
  posts,
  ofUser: relations(users, ({ many }) => ({ posts: many(posts) })),
  ofPost: relations(posts, ({ one }) => ({
    user: one(users, { fields: [posts.userId], references: [users.id] }),
  })),
}

/** As drizzle-kit writes them: the second one rebuilds a table to which another refers. */
const MIGRATIONS = [
  'CREATE TABLE `users` (`id` integer PRIMARY KEY, `name` text);--> statement-breakpoint\nCREATE TABLE `posts` (`id` integer PRIMARY KEY, `user_id` integer REFERENCES `users`(`id`) ON DELETE cascade, `title` text);',
  'PRAGMA foreign_keys=OFF;--> statement-breakpoint\nCREATE TABLE `__new_users` (`id` integer PRIMARY KEY, `name` text NOT NULL UNIQUE);--> statement-breakpoint\nINSERT INTO `__new_users` SELECT `id`, `name` FROM `users`;--> statement-breakpoint\nDROP TABLE `users`;--> statement-breakpoint\nALTER TABLE `__new_users` RENAME TO `users`;--> statement-breakpoint\nPRAGMA foreign_keys=ON;',
]

/** The folder that `drizzle-kit generate` makes. */
function folderOf(migrations: readonly string[]): string {
  const folder = tempDirectory('cellstore-drizzle')
  fs.mkdirSync(path.join(folder, 'meta'))
  const entries = migrations.map((sql, idx) => {
    const tag = `000${idx}_step`
    fs.writeFileSync(path.join(folder, `${tag}.sql`), sql)
    return { idx, version: '6', when: 1_700_000_000_000 + idx, tag, breakpoints: true }
  })
  const journal = { version: '7', dialect: 'sqlite', entries }
  fs.writeFileSync(path.join(folder, 'meta', '_journal.json'), JSON.stringify(journal))
  return folder
}

describe.each(PLACES)('Drizzle with @libsql/client, with the cells %s', (_place, workers) => {
  test('migrates, and queries with relations, batches and nested transactions', async () => {
    const cell = await serveCell(workers)
    const client = createClient({ url: cell.url, authToken: cell.key })
    onTestFinished(() => client.close())
    const db = drizzle(client, { schema })
    await migrate(db, { migrationsFolder: folderOf(MIGRATIONS.slice(0, 1)) })
    await db.insert(users).values({ id: 1, name: 'Ann' })
    await db.insert(posts).values({ id: 1, userId: 1, title: 'first' })
    // The rebuild keeps the rows that refer to the table; a second run does nothing.
    const folder = folderOf(MIGRATIONS)
    for (let run = 0; run < 2; run++) await migrate(db, { migrationsFolder: folder })
    expect(await db.query.users.findMany({ with: { posts: true } })).toEqual([
      { id: 1, name: 'Ann', posts: [{ id: 1, userId: 1, title: 'first' }] },
    ])
    const [inserted, found] = await db.batch([
      db.insert(users).values({ name: 'Bob' }).returning(),
      db.select().from(users).where(eq(users.name, 'Bob')),
    ])
    expect([inserted, found]).toEqual([[{ id: 2, name: 'Bob' }], [{ id: 2, name: 'Bob' }]])
    await db.transaction(async (tx) => {
      await tx.insert(users).values({ name: 'Cid' })
      const nested = tx.transaction(async (inner) => {
        await inner.insert(users).values({ name: 'Dan' })
        inner.rollback()
      })
      await expect(nested).rejects.toThrow('Rollback')
      await tx.insert(users).values({ name: 'Eve' })
    })
    const undone = db.transaction(async (tx) => {
      await tx.insert(users).values({ name: 'Fay' })
      await tx.insert(users).values({ name: 'Ann' })
    })
    await expect(undone).rejects.toMatchObject({ cause: { code: 'SQLITE_CONSTRAINT' } })
    expect((await db.select().from(users)).map(({ name }) => name)).toEqual(['Ann', 'Bob', 'Cid', 'Eve'])
  })
})
