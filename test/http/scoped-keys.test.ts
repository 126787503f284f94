import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import type { KeyScopeOptions } from '../../src/auth/key-scope.ts'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { countOf } from '../support/counts.ts'
import { type Ask, Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { SEED } from '../support/seed.ts'

/**
 * No scoped key ever does what its scope does not allow, whatever it asks: not by the route that is meant for it, and not by
 * any other. What it did is looked up in the store, not in the answers; what it saw, in the answers.
 */

const RUNS = countOf('CELLSTORE_SCOPED_KEYS')
const SECRETS = { sql: 'secret-in-a-table', kv: 'secret-in-an-entry', name: 'secret-name' }
const CELLS = ['own', 'sibling', 'foreign'] as const
type CellName = (typeof CELLS)[number]

/** SQL has the most ways to do what is not allowed. */
const ROUTE = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...ROUTES) },
  { weight: 1, arbitrary: fc.constantFrom(...ROUTES.filter(([, path]) => /\/(sql|batch)$/.test(path))) },
)
const SQL = fc.constantFrom(
  'SELECT * FROM t',
  'SELECT * FROM cell_kv',
  'SELECT * FROM sqlite_schema',
  "INSERT INTO t VALUES ('x') RETURNING a",
  "UPDATE t SET a = 'x'",
  'DELETE FROM t',
  'DROP TABLE t',
  'CREATE TABLE IF NOT EXISTS u (a)',
  'ALTER TABLE t ADD COLUMN b',
  'PRAGMA user_version = 9',
  'PRAGMA optimize',
  'WITH x AS (SELECT 1) DELETE FROM t',
  'BEGIN',
  "ATTACH ':memory:' AS m",
)
const KV = fc.constantFrom(
  { kv: 'put', key: 'k', value: 'x' },
  { kv: 'incr', key: 'n' },
  { kv: 'expire', key: 'k', ttl_seconds: 5 },
  { kv: 'delete', key: 'k' },
  { kv: 'getdel', key: 'k' },
)
const SCOPE = fc.record({
  access: fc.constantFrom('read', 'write'),
  surface: fc.constantFrom('kv', 'all'),
  ofCell: fc.boolean(),
  expires: fc.boolean(),
})
const STEP = fc.record({
  route: ROUTE,
  cell: fc.constantFrom(...CELLS, 'own' as const),
  sql: SQL,
  operations: fc.array(
    fc.oneof(
      SQL.map((sql) => ({ sql })),
      KV,
    ),
    { minLength: 1, maxLength: 3 },
  ),
  made: fc.record({
    access: fc.constantFrom('read', 'write', 'owner'),
    surface: fc.constantFrom('kv', 'all'),
    expires_at: fc.constantFrom(null, undefined, '2027-06-01T00:00:00Z', '2026-12-01T00:00:00Z'),
  }),
})
type Scope = typeof SCOPE extends fc.Arbitrary<infer T> ? T : never
type Step = typeof STEP extends fc.Arbitrary<infer T> ? T : never

/** Three cells with secrets: two of the key's account, one of another. */
async function openWorld() {
  const bench = await Bench.open(viaFetch)
  onTestFinished(() => bench.close())
  const { store, accountId, strangerId } = bench
  const accounts: Record<CellName, string> = { own: accountId, sibling: accountId, foreign: strangerId }
  const world = { bench, ids: { own: '', sibling: '', foreign: '' }, renew, contents, account }

  let cells = 0
  function renew() {
    for (const name of CELLS) {
      const cell = store.createCell({ accountId: accounts[name], name: `${SECRETS.name}-${name}-${++cells}` })
      cell.sql('CREATE TABLE t (a)')
      cell.sql('INSERT INTO t VALUES (?)', [`${SECRETS.sql}-${name}`])
      cell.sql('SELECT * FROM cell_kv')
      cell.kv.put('k', `${SECRETS.kv}-${name}`)
      cell.kv.put('n', '1')
      world.ids[name] = cell.id
    }
  }

  /** All that is in a cell; undefined if it is gone. */
  function contents(name: CellName) {
    if (store.findCell(world.ids[name])?.deletedAt !== null) return undefined
    const cell = store.openCell(world.ids[name])
    const tables = cell.sql("SELECT sql FROM sqlite_schema WHERE name NOT LIKE '\\_cell%' ESCAPE '\\'").rows
    const rows = tables.some(({ sql }) => /TABLE t\b/.test(String(sql)))
      ? cell.sql('SELECT * FROM t').rows
      : []
    return {
      sql: [tables, rows, cell.sql('PRAGMA user_version').rows],
      kv: cell.kv.list({ values: true }).entries.map(({ key, value, expiresAt }) => [key, value, expiresAt]),
    }
  }

  /** All that an account has beside the contents of cells. */
  function account() {
    return {
      keys: store.apiKeys.list(accountId).map(({ lastUsedAt: _, ...key }) => key),
      cells: store.cells({ accountId, limit: 1_000 }).cells.map(({ sizeBytes: _, ...cell }) => cell),
      accounts: store.accounts.list(),
    }
  }
  return world
}

function askOf(
  { route: [method, path, { takesBody }], cell, sql, operations, made }: Step,
  ids: Record<CellName, string>,
): Ask {
  const key = path.endsWith('/{key}') ? 'k' : '{keyid}'
  const bodies: [RegExp, unknown][] = [
    [/\/sql$/, { sql }],
    [/\/batch$/, { operations }],
    [/\/kv\/\{key\}$/, { value: 'x' }],
    [/(ttl|mget|ops\/delete)$/, { keys: ['k'] }],
    [/mset$/, { entries: [{ key: 'k', value: 'x' }] }],
    [/(incr|expire|getdel)$/, { key: path.endsWith('incr') ? 'n' : 'k' }],
    [/api-keys$/, made],
  ]
  const body = bodies.find(([shape]) => shape.test(path))?.[1] ?? {}
  return {
    method,
    path: path
      .replace('{id}', ids[cell])
      .replace(/\{key(_id)?\}/, key)
      .replace('{account_id}', '{account}')
      .replace('{restore_id}', 'x'),
    ...(takesBody ? { body } : {}),
  }
}

const EXPIRES_AT = Date.UTC(2026, 11, 31)

test(
  'no scoped key ever does or sees what its scope does not allow',
  async () => {
    const world = await openWorld()
    const { bench } = world
    const { store, accountId } = bench
    bench.fill('{keyid} {account} {ownerkey}')
    // What the steps did, so that it is known that they did something.
    const done = new Set<string>()

    async function play(scope: Scope, steps: Step[]): Promise<void> {
      world.renew()
      const options: KeyScopeOptions = {
        access: scope.access as 'read' | 'write',
        surface: scope.surface as 'kv' | 'all',
        cellIds: scope.ofCell ? [world.ids.own] : null,
        expiresAt: scope.expires ? EXPIRES_AT : null,
      }
      const { key } = store.apiKeys.create(accountId, options)
      const isAccounts = !scope.ofCell && scope.surface === 'all'
      for (const step of steps) {
        const before = { cells: CELLS.map(world.contents), account: world.account() }
        const ask = { ...askOf(step, world.ids), key }
        const reply = await bench.send(ask)
        const after = { cells: CELLS.map(world.contents), account: world.account() }
        if (reply.status < 300) done.add(`${scope.access} ${scope.surface} ${scope.ofCell} ${step.route[0]}`)
        const isFree = (name: CellName) => name === 'own' || (name === 'sibling' && !scope.ofCell)
        for (const [i, name] of CELLS.entries()) {
          const [old, now] = [before.cells[i], after.cells[i]]
          if (scope.access === 'read' || !isFree(name)) expect(now).toEqual(old)
          else if (scope.surface === 'kv') expect(now?.sql).toEqual(old?.sql)
          if (!isFree(name)) expect(reply.text).not.toMatch(new RegExp(`secret-[a-z-]*${name}`))
        }
        if (scope.surface === 'kv') {
          expect(reply.text).not.toContain(SECRETS.sql)
          expect(reply.text).not.toContain(SECRETS.name)
        }
        if (scope.access === 'read' || !isAccounts) expect(after.account).toEqual(before.account)
        expect(after.account.accounts).toEqual(before.account.accounts)
        for (const made of after.account.keys) {
          const isNew = !before.account.keys.some(({ id }) => id === made.id)
          if (!isNew) continue
          expect(made.access).not.toBe('owner')
          if (scope.expires)
            expect(made.expiresAt ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(EXPIRES_AT)
        }
      }
    }

    await fc.assert(fc.asyncProperty(SCOPE, fc.array(STEP, { minLength: 10, maxLength: 30 }), play), {
      numRuns: RUNS,
      seed: SEED,
    })
    expect(done.size).toBeGreaterThan(15)
  },
  60_000 + RUNS * 2_000,
)
