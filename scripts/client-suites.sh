#!/usr/bin/env bash
# Runs what is in no package against this source, unchanged: the public suites of @libsql/client (tursodatabase/libsql-client-ts) and of
# unstorage's drivers (unjs/unstorage), two programs of Turso's examples, moved by their URL and token alone, and programs with
# Kysely's dialect and Prisma's adapter for libSQL.
# Needs bash, curl, git, and a clone after `npm ci`. Ends with another code than 0 if anything fails.
#
#   scripts/client-suites.sh                    # all
#   scripts/client-suites.sh libsql             # or some: libsql, unstorage, expenses, mugs, kysely, prisma
#
# LIBSQL_SUITE, UNSTORAGE_SUITE and TURSO_EXAMPLES may name clones that are there already.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export PATH=$root/node_modules/.bin:$PATH
folder=$(mktemp -d)
node_pid=''
trap '[[ -z $node_pid ]] || kill "$node_pid"; wait; rm -rf "$folder"' EXIT

clone() { # url, commit, name
  [[ -d $folder/$3 ]] || git clone -q "$1" "$folder/$3"
  git -C "$folder/$3" checkout -q "$2"
  cd "$folder/$3"
}

# Sets address and key of a node that serves, and url, of a new cell of it, as an application has it.
new_cell() {
  if [[ -z $node_pid ]]; then
    npm run --silent --prefix "$root" prestart
    node "$root/dist/cellstore.js" serve --json --port 0 --metrics-port 0 --data-dir "$folder/data" --object-store "file://$folder/objects" >"$folder/announced" 2>"$folder/log" &
    node_pid=$!
    until [[ -s $folder/announced ]]; do kill -0 "$node_pid" && sleep 0.2; done
    address=$(node -p 'JSON.parse(fs.readFileSync(process.argv[1])).address' "$folder/announced")
    key=$(node -p 'JSON.parse(fs.readFileSync(process.argv[1])).first_key.key' "$folder/announced")
  fi
  local id
  id=$(curl -sS --fail-with-body -H "x-api-key: $key" -H 'content-type: application/json' -d '{}' "$address/v1/databases" | node -p 'JSON.parse(fs.readFileSync(0)).id')
  url=$address/v1/databases/$id/
}

libsql() {
  clone "${LIBSQL_SUITE:-https://github.com/tursodatabase/libsql-client-ts}" 889a2ec libsql
  npm ci --ignore-scripts --silent
  npm run --silent build -w packages/libsql-core -w packages/libsql-client
  new_cell
  cd packages/libsql-client
  URL=$url SERVER=test_v2 AUTH_TOKEN=$key npx jest --runInBand
}

unstorage() {
  clone "${UNSTORAGE_SUITE:-https://github.com/unjs/unstorage}" afbb66e unstorage
  # Its suite is a function that the test of each driver calls: this is the one of ours.
  cat >test/drivers/cellstore.test.ts <<TEST
import { describe } from 'vitest'
import { cellDriver } from '$root/src/adapters/unstorage.ts'
import { CellStore } from '$root/src/index.ts'
import { testDriver } from './utils.ts'

const store = await CellStore.openOrCreate('$folder/store')
describe('all of a cell', () => testDriver({ driver: cellDriver(store.createCell()) }))
describe('with a base', () => testDriver({ driver: cellDriver(store.createCell(), { base: 'b' }) }))
TEST
  ln -s "$root/node_modules"
  vitest run --typecheck.enabled=false test/drivers/cellstore.test.ts
}

examples() { # the program's folder
  clone "${TURSO_EXAMPLES:-https://github.com/tursodatabase/examples}" 03e4aa4 examples
  cd "$1"
  new_cell
}

expenses() {
  examples app-expenses-tracker-hono
  npm install --ignore-scripts --silent
  npm ls --depth=0 @libsql/client
  cat >use.mts <<'USE'
import assert from 'node:assert/strict'
import imported from './src/index.ts'

// The program is CommonJS to Node.js.
const app = (imported as never as { default?: typeof imported }).default ?? imported
const records = async () => (await (await app.request('/records')).json()).rows
for (const amount of [200, 35.5]) {
  const body = JSON.stringify({ amount, information: 'Bought something nice!' })
  const answer = await app.request('/records', { method: 'POST', body })
  assert.equal(answer.status, 201)
  assert.equal((await answer.json()).record.amount, amount)
}
assert.deepEqual((await records()).map(({ amount }) => amount), [200, 35.5])
console.log('expenses: 2 records were added and found')
USE
  TURSO_DATABASE_URL=$url TURSO_AUTH_TOKEN=$key tsx use.mts
}

mugs() {
  examples api-mug-store-api
  npm install --ignore-scripts --silent
  npm ls --depth=0 @libsql/client drizzle-orm drizzle-kit
  export TURSO_URL=$url TURSO_AUTH_TOKEN=$key
  npm run generate
  # Its seed closes its client while it writes: what it leaves depends on the time. The routes make what is found here.
  tsx drizzle/migrate
  cat >use.mts <<'USE'
import assert from 'node:assert/strict'
import imported from './src/worker.ts'

const env = { TURSO_URL: process.env.TURSO_URL, TURSO_AUTH_TOKEN: process.env.TURSO_AUTH_TOKEN }
const worker = (imported as never as { default?: typeof imported }).default ?? imported
async function ask(status: number, method: string, path: string, body?: object) {
  const request = new Request(`http://mugs.test${path}`, { method, ...(body && { body: JSON.stringify(body) }) })
  const answer = await worker.fetch(request, env as never, {} as never)
  const json = await answer.json()
  assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(json)}`)
  return json
}

const { category } = await ask(201, 'POST', '/category', { name: 'New Mugs' })
assert.deepEqual((await ask(200, 'GET', '/categories')).categories, [category])
assert.equal((await ask(200, 'PATCH', `/category/${category.id}`, { name: 'Newer' })).category.name, 'Newer')
assert.equal((await ask(200, 'GET', `/category/${category.id}`)).category.name, 'Newer')
const { mug } = await ask(201, 'POST', '/mug', { name: 'M', description: 'd', price: 9.5, category_id: category.id })
assert.equal(mug.price, 9.5)
await ask(422, 'POST', '/mug', { name: 'no price' })
assert.deepEqual((await ask(200, 'GET', '/mugs')).mugs, [mug])
assert.deepEqual((await ask(200, 'GET', `/mug/${mug.id}`)).mug, mug)
await ask(404, 'GET', '/mug/none')
assert.equal((await ask(200, 'PATCH', `/mug/${mug.id}`, { price: 8 })).mug.price, 8)
assert.equal((await ask(200, 'DELETE', `/mug/${mug.id}`)).mug.id, mug.id)
assert.equal((await ask(200, 'DELETE', `/category/${category.id}`)).category.id, category.id)
assert.deepEqual([await ask(200, 'GET', '/mugs'), await ask(200, 'GET', '/categories')], [{ mugs: [] }, { categories: [] }])
console.log('mugs: its tables were made, and each of its routes was asked')
USE
  tsx use.mts
}

kysely() {
  mkdir "$folder/kysely" && cd "$folder/kysely"
  echo '{"private":true,"type":"module"}' >package.json
  npm install --ignore-scripts --silent kysely@0.29.9 @libsql/kysely-libsql@0.4.1
  npm ls --depth=0
  new_cell
  cat >use.mjs <<'USE'
import assert from 'node:assert/strict'
import { LibsqlDialect } from '@libsql/kysely-libsql'
import { Kysely } from 'kysely'

const { LIBSQL_URL: url, LIBSQL_TOKEN: authToken } = process.env
const db = new Kysely({ dialect: new LibsqlDialect({ url, authToken }) })
await db.schema.createTable('pets').addColumn('id', 'integer', (c) => c.primaryKey()).addColumn('name', 'text').execute()
const add = (to, name) => to.insertInto('pets').values({ name }).returningAll().executeTakeFirstOrThrow()
const names = async () => (await db.selectFrom('pets').select('name').orderBy('id').execute()).map(({ name }) => name)
assert.equal((await add(db, 'Ann')).id, 1)
await db.transaction().execute(async (tx) => {
  await add(tx, 'Bob')
  await add(tx, 'Cid')
})
await assert.rejects(
  db.transaction().execute(async (tx) => {
    await add(tx, 'Dan')
    throw new Error('undone')
  }),
  /undone/,
)
assert.deepEqual(await names(), ['Ann', 'Bob', 'Cid'])
assert.equal((await db.updateTable('pets').set({ name: 'Eve' }).where('id', '=', 2).executeTakeFirst()).numUpdatedRows, 1n)
const pets = (await db.introspection.getTables()).find(({ name }) => name === 'pets')
assert.deepEqual(pets.columns.map(({ name }) => name), ['id', 'name'])
await db.destroy()
console.log('kysely: queries, transactions, a rollback, introspection')
USE
  LIBSQL_URL=$url LIBSQL_TOKEN=$key node use.mjs
}

prisma() {
  mkdir "$folder/prisma" && cd "$folder/prisma"
  echo '{"private":true,"type":"module"}' >package.json
  npm install --ignore-scripts --silent prisma@7.10.0 @prisma/client@7.10.0 @prisma/adapter-libsql@7.10.0
  npm ls --depth=0
  new_cell
  cat >schema.prisma <<'SCHEMA'
generator client {
  provider = "prisma-client"
  output   = "./generated"
}
datasource db {
  provider = "sqlite"
}
model User {
  id    Int    @id @default(autoincrement())
  email String @unique
  posts Post[]
}
model Post {
  id     Int    @id @default(autoincrement())
  title  String
  userId Int
  user   User   @relation(fields: [userId], references: [id])
}
SCHEMA
  # To generate a client it needs no engine, and shall download none.
  PRISMA_SCHEMA_ENGINE_BINARY=/bin/true npx prisma generate --schema schema.prisma
  cat >use.mts <<'USE'
import assert from 'node:assert/strict'
import { PrismaLibSql } from '@prisma/adapter-libsql'
import { createClient } from '@libsql/client'
import { PrismaClient } from './generated/client.ts'

const config = { url: process.env.LIBSQL_URL as string, authToken: process.env.LIBSQL_TOKEN as string }
await createClient(config).executeMultiple(`
  CREATE TABLE User (id INTEGER PRIMARY KEY AUTOINCREMENT, email TEXT NOT NULL UNIQUE);
  CREATE TABLE Post (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, userId INTEGER NOT NULL REFERENCES User(id));
`)
const db = new PrismaClient({ adapter: new PrismaLibSql(config) })
const ann = await db.user.create({ data: { email: 'ann@x', posts: { create: [{ title: 'first' }] } }, include: { posts: true } })
assert.deepEqual(ann, { id: 1, email: 'ann@x', posts: [{ id: 1, title: 'first', userId: 1 }] })
await db.$transaction([db.user.create({ data: { email: 'bob@x' } }), db.user.create({ data: { email: 'cid@x' } })])
await db.$transaction(async (tx) => {
  const { id } = await tx.user.create({ data: { email: 'dan@x' } })
  await tx.post.create({ data: { title: 'second', userId: id } })
})
const undone = db.$transaction(async (tx) => {
  await tx.user.create({ data: { email: 'eve@x' } })
  await tx.user.create({ data: { email: 'ann@x' } })
})
await assert.rejects(undone)
assert.deepEqual((await db.user.findMany({ orderBy: { id: 'asc' } })).map(({ email }) => email), ['ann@x', 'bob@x', 'cid@x', 'dan@x'])
assert.equal(await db.post.count({ where: { user: { email: 'dan@x' } } }), 1)
await db.$disconnect()
const error = await db.user.create({ data: { email: 'ann@x' } }).catch((error: unknown) => error)
assert.equal((error as { code?: string }).code, 'P2039')
console.log('prisma: relations, batches, transactions, one undone, a violated UNIQUE')
USE
  LIBSQL_URL=$url LIBSQL_TOKEN=$key tsx use.mts
}

[[ $# -gt 0 ]] || set -- libsql unstorage expenses mugs kysely prisma
for each; do cd "$root" && "$each"; done
