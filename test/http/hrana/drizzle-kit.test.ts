import fs from 'node:fs'
import path from 'node:path'
import { createClient } from '@libsql/client'
import type { Config } from 'drizzle-kit'
import { expect, onTestFinished, test } from 'vitest'
import { serveCell } from '../../support/http/hrana-cell.ts'
import { PROJECT, run } from '../../support/package/run.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const MODULES = path.join(PROJECT, 'node_modules')
const KIT = path.join(MODULES, 'drizzle-kit/bin.cjs')
/** Leaves out the tables of the server. */
const OURS = ['!_cell*']
const USERS = `
export const users = sqliteTable('users', { id: integer('id').primaryKey(), name: text('name') })`
const POSTS = `
export const posts = sqliteTable('posts', {
  id: integer('id').primaryKey(),
  userId: integer('user_id').references(() => users.id, { onDelete: 'cascade' }),
})`
/** For this change of a column SQLite needs a new table. */
const STRICTER = USERS.replace("text('name')", "text('name').notNull()")

/** The folder of an application, with the configuration of docs/hrana.md, and the program that runs in it. */
async function application() {
  const cell = await serveCell(1)
  const client = createClient({ url: cell.url, authToken: cell.key })
  onTestFinished(() => client.close())
  const folder = tempDirectory('cellstore-drizzle-kit')
  fs.symlinkSync(MODULES, path.join(folder, 'node_modules'))
  const inFolder = (name: string) => path.join(folder, name)
  const configure = (options: Pick<Config, 'tablesFilter' | 'out'>) =>
    fs.writeFileSync(
      inFolder('drizzle.config.ts'),
      `import { defineConfig } from 'drizzle-kit'
export default defineConfig(${JSON.stringify({
        dialect: 'sqlite',
        schema: './schema.ts',
        dbCredentials: { url: `${cell.url}?authToken=${cell.key}` },
        ...options,
      })})`,
    )
  configure({ tablesFilter: OURS })
  return {
    inFolder,
    configure,
    schema: (...tables: string[]) =>
      fs.writeFileSync(
        inFolder('schema.ts'),
        `import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'${tables.join('')}`,
      ),
    /** @returns what it printed, whatever code it ended with: of a push that the server refuses it is 0 */
    kit: async (...args: string[]) => {
      const { stdout, stderr } = await run(process.execPath, [KIT, ...args], { cwd: folder })
      return stdout + stderr
    },
    rows: async (sql: string) => (await client.execute(sql)).rows.map((row) => ({ ...row })),
    put: () => cell.node.request('PUT', `/v1/databases/${cell.id}/kv/k`, { value: 'v' }),
    entry: async () => (await cell.node.request('GET', `/v1/databases/${cell.id}/kv/k`)).body['value'],
  }
}

const COUNTS = 'SELECT (SELECT count(*) FROM users) AS users, (SELECT count(*) FROM posts) AS posts'
const ONE_OF_EACH = [{ users: 1, posts: 1 }]

test('drizzle-kit generates and runs migrations, a rebuilt table keeps its rows and those that refer to it, and pull finds what they made', async () => {
  const app = await application()
  await app.put()
  app.schema(USERS, POSTS)
  await app.kit('generate', '--name', 'first')
  await app.kit('migrate')
  await app.rows("INSERT INTO users VALUES (1, 'Ann')")
  await app.rows('INSERT INTO posts VALUES (1, 1)')
  app.schema(STRICTER, POSTS)
  await app.kit('generate', '--name', 'second')
  const [second] = fs.readdirSync(app.inFolder('drizzle')).filter((name) => name.startsWith('0001'))
  expect(fs.readFileSync(app.inFolder(`drizzle/${second}`), 'utf8')).toContain('DROP TABLE `users`')
  // The second run finds nothing to do.
  for (let run = 0; run < 2; run++) await app.kit('migrate')
  expect(await app.rows(COUNTS)).toEqual(ONE_OF_EACH)
  await expect(app.rows('INSERT INTO users VALUES (2, NULL)')).rejects.toMatchObject({
    code: 'SQLITE_CONSTRAINT',
  })
  app.configure({ tablesFilter: OURS, out: './pulled' })
  await app.kit('pull')
  const pulled = fs.readFileSync(app.inFolder('pulled/schema.ts'), 'utf8')
  expect(pulled).toContain('sqliteTable("users"')
  expect(pulled).toContain('onDelete: "cascade"')
  expect(pulled).not.toContain('_cell')
  expect(await app.entry()).toBe('v')
})

test('drizzle-kit pushes tables and columns; a push that would rebuild a table is refused, and one without a filter drops none of the server’s tables', async () => {
  const app = await application()
  await app.put()
  app.schema(USERS)
  await app.kit('push', '--force')
  await app.rows("INSERT INTO users VALUES (1, 'Ann')")
  const withEmail = USERS.replace('})', ", email: text('email') })")
  app.schema(withEmail, POSTS)
  await app.kit('push', '--force')
  await app.rows('INSERT INTO posts VALUES (1, 1)')
  expect(await app.rows('SELECT * FROM users')).toEqual([{ id: 1, name: 'Ann', email: null }])
  expect(await app.kit('push', '--force')).toContain('No changes detected')
  app.schema(STRICTER, POSTS)
  expect(await app.kit('push', '--force')).toContain('last for one request to the server')
  expect(await app.rows(COUNTS)).toEqual(ONE_OF_EACH)
  app.schema(withEmail, POSTS)
  app.configure({})
  expect(await app.kit('push', '--force')).toContain('Names that start with _cell are reserved')
  expect(await app.rows(COUNTS)).toEqual(ONE_OF_EACH)
  expect(await app.entry()).toBe('v')
})
