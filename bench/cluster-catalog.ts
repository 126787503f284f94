import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { ClusterNode } from '../test/support/cluster/shared-catalog.ts'
import { TestPostgres } from '../test/support/postgres.ts'
import { HEAD, report, sideBySide } from './side-by-side.ts'

/**
 * The catalog of a cluster with many cells in PostgreSQL next to one with a thousand: creations, look-ups, and pages of lists. An
 * account has a thousand cells, or all of them.
 */
const FEW = 1_000
const MANY = Number(process.env['CELLSTORE_BENCH_CELLS'] ?? 1_000_000)
const ROUNDS = 7
const CREATIONS = 200
const READS = 2_000
const PAGE = 100

const postgres = await TestPostgres.start({ syncs: true })
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-catalog-'))

interface Filled {
  node: ClusterNode
  accountId: string
  count: number
  loadMs: number
}

/** The id of the n-th cell. */
const ID = `substr(md5(n::text), 1, 8) || '-' || substr(md5(n::text), 9, 4) || '-4' || substr(md5(n::text), 14, 3) || '-8'
  || substr(md5(n::text), 18, 3) || '-' || substr(md5(n::text), 21, 12)`

async function fill(count: number): Promise<Filled> {
  const storeId = randomUUID()
  const url = await postgres.newDatabase(`cells${count}`)
  const directories = ['first', 'node'].map((name) => path.join(root, `${name}${count}`))
  for (const directory of directories) fs.mkdirSync(directory)
  const [first, second] = directories as [string, string]
  const seeding = await ClusterNode.join(first, url, storeId)
  const { id: accountId } = await seeding.catalog.durably(() => seeding.accounts.create())
  const version = seeding.shared.version + 1
  const sql = `
    INSERT INTO cellstore.rows SELECT 'cells', '[' || n || ']', ${version}, '{"number":' || n || ',"id":"' || ${ID}
      || '","account_id":"${accountId}","name":"cell ' || n || '","created_at":' || n || '}'
      FROM generate_series(1, ${count}) AS n;
    INSERT INTO cellstore.versions VALUES (${version}, 'filled');
    UPDATE cellstore.cluster SET version = ${version};
    ANALYZE cellstore.rows`
  await postgres.query(sql, [], `cells${count}`)
  await seeding.close()
  await postgres.query(`DELETE FROM cellstore.nodes`, [], `cells${count}`)
  const begin = performance.now()
  const node = await ClusterNode.join(second, url, storeId)
  return { node, accountId, count, loadMs: performance.now() - begin }
}

/** Milliseconds of one. */
async function timed(times: number, run: () => unknown): Promise<number> {
  const begin = performance.now()
  for (let i = 0; i < times; i++) await run()
  return (performance.now() - begin) / times
}

const MEASURED: [string, (filled: Filled) => Promise<number>][] = [
  ['a creation', ({ node, accountId }) => timed(CREATIONS, () => node.createCell(accountId))],
  [
    'a creation of 32 at once',
    ({ node, accountId }) =>
      timed(20, () => Promise.all(Array.from({ length: 32 }, () => node.createCell(accountId)))),
  ],
  [
    'a creation with a name and an idempotency key',
    ({ node, accountId }) =>
      timed(CREATIONS, () => node.createCell(accountId, { name: randomUUID(), key: randomUUID() })),
  ],
  ['a look-up by name, of 1000 cells in use', (filled) => lookUpNames(filled, FEW)],
  ['a look-up by name, of any cell', (filled) => lookUpNames(filled, filled.count)],
  ['a look-up by id, of 1000 cells in use', (filled) => lookUpIds(filled, FEW)],
  ['a look-up by id, of any cell', (filled) => lookUpIds(filled, filled.count)],
  [
    'a page of 100 in the middle of a list',
    ({ node, accountId, count }) => {
      const cursor = node.registry.list({ accountId, limit: 1 }).nextCursor
      if (cursor === null) throw new Error('There is one page.')
      const middle = cursorAt(node, accountId, Math.floor(count / 2))
      return timed(READS / 10, () => node.registry.list({ accountId, limit: PAGE, cursor: middle }))
    },
  ],
]

function lookUpNames({ node, accountId }: Filled, among: number): Promise<number> {
  return timed(READS, () => node.registry.named(accountId, `cell ${1 + Math.floor(among * next())}`))
}

function lookUpIds({ node }: Filled, among: number): Promise<number> {
  const find = node.catalog.prepare('SELECT id FROM cells WHERE number = ?').pluck()
  const ids = Array.from({ length: READS }, () => find.get(1 + Math.floor(among * next())) as string)
  return timed(READS, () => node.registry.find(ids.pop() ?? ''))
}

let state = 1
/** The same in every run. */
function next(): number {
  state = (state * 48_271) % 2_147_483_647
  return state / 2_147_483_647
}

/** A cursor names the number of the last cell of its page. */
function cursorAt(node: ClusterNode, accountId: string, number: number): string {
  let cursor: string | null | undefined
  const { pageMax } = node.registry
  for (let seen = 0; seen < Math.min(number, 10 * pageMax); seen += pageMax)
    cursor = node.registry.list({ accountId, limit: pageMax, ...(cursor ? { cursor } : {}) }).nextCursor
  if (typeof cursor !== 'string') throw new Error('The list is too short.')
  return cursor
}

const few = await fill(FEW)
const many = await fill(MANY)
console.log(
  `A new node loads ${MANY} cells in ${Math.round(many.loadMs)} ms, ${FEW} in ${Math.round(few.loadMs)} ms.`,
)
console.log(HEAD)
for (const [what, measure] of MEASURED) {
  const times = await sideBySide(ROUNDS, { ofMany: () => measure(many), ofFew: () => measure(few) })
  const ratio = times.ofFew / times.ofMany
  report({
    what: `${what}: ${MANY} cells next to ${FEW}`,
    ours: `${times.ofMany.toFixed(4)} ms`,
    theirs: `${times.ofFew.toFixed(4)} ms`,
    ratio,
    aim: '≥ 0.5',
    met: ratio >= 0.5,
  })
}
for (const { node } of [few, many]) await node.close()
await postgres.stop()
fs.rmSync(root, { recursive: true, force: true })
