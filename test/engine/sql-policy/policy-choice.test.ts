import { describe, expect, test } from 'vitest'
import { openTestCell } from '../../support/open-test-store.ts'
import { codeOf } from '../../support/thrown.ts'

const TENANTS_MAY_NOT = [
  "ATTACH ':memory:' AS other",
  'CREATE TEMP TABLE x (a)',
  'SELECT * FROM _cell_kv',
  'PRAGMA cache_size',
  'VACUUM',
]

describe('the SQL policy is chosen', () => {
  test('by the store: tenant', async () => {
    const { cell } = await openTestCell({ sqlPolicy: 'tenant' })
    for (const sql of TENANTS_MAY_NOT) expect(codeOf(() => cell.sql(sql))).toBe('statement_not_allowed')
    cell.sql('CREATE TABLE t (a)')
    expect(cell.sql('SELECT * FROM t').rows).toEqual([])
  })

  test('by the store: trusted, which is the default', async () => {
    for (const options of [{}, { sqlPolicy: 'trusted' as const }]) {
      const { cell } = await openTestCell(options)
      for (const sql of TENANTS_MAY_NOT) expect(() => cell.sql(sql)).not.toThrow()
    }
  })

  test('by the call, either way', async () => {
    const trusted = await openTestCell()
    const tenant = await openTestCell({ sqlPolicy: 'tenant' })
    for (const sql of TENANTS_MAY_NOT) {
      expect(codeOf(() => trusted.cell.sql(sql, [], { policy: 'tenant' }))).toBe('statement_not_allowed')
      expect(() => tenant.cell.sql(sql, [], { policy: 'trusted' })).not.toThrow()
    }
  })
})

describe('a refused statement has not been prepared (invariant 5)', () => {
  test.each(['PRAGMA query_only = 1', 'EXPLAIN PRAGMA query_only = 1', 'PRAGMA foreign_keys = 0'])(
    '%s',
    async (sql) => {
      const { cell } = await openTestCell({ sqlPolicy: 'tenant' })
      expect(codeOf(() => cell.sql(sql))).toBe('statement_not_allowed')
      const setting = (name: string) =>
        Object.values(cell.sql(`PRAGMA ${name}`, [], { policy: 'trusted' }).rows[0] ?? {})
      expect([...setting('query_only'), ...setting('foreign_keys')]).toEqual([0, 1])
    },
  )
})
