import { expect, test } from 'vitest'
import { ScratchPlace } from '../../support/backup/scratch-store.ts'

/** What a live cell has no trouble with is no damage in its backup (invariant 10). */
const SCHEMAS: Record<string, string[]> = {
  'a search index over a table, not filled yet': [
    'CREATE TABLE docs (body)',
    "CREATE VIRTUAL TABLE f USING fts4 (body, content='docs')",
    "INSERT INTO docs VALUES ('abc')",
  ],
  'a search index whose table is gone': [
    'CREATE TABLE docs (body)',
    "CREATE VIRTUAL TABLE f USING fts4 (body, content='docs')",
    "INSERT INTO docs VALUES ('abc')",
    'DROP TABLE docs',
  ],
  'a generated column that fails for a row': [
    'CREATE TABLE t (j)',
    `INSERT INTO t VALUES ('{"x":1}'), ('oops')`,
    "ALTER TABLE t ADD COLUMN x INT AS (json_extract(j, '$.x'))",
  ],
  'a table with quotes in its name': ['CREATE TABLE "say ""hi""" (a)', 'INSERT INTO "say ""hi""" VALUES (1)'],
}

test.each(Object.entries(SCHEMAS))('A cell with %s is restored from its backup', async (_, statements) => {
  const place = new ScratchPlace()
  // SQLite's own check takes such a schema for damage.
  place.directory.isDamaged = true
  const store = await place.create({ sqlPolicy: 'tenant' })
  const cell = store.createCell()
  for (const sql of statements) cell.sql(sql)
  cell.kv.put('kept', 'yes')
  await store.backups.snapshot(cell.id)
  await store.close()
  place.loseData()
  const again = await place.open()
  await again.openCell(cell.id).ensureLocal()
  expect(again.openCell(cell.id).kv.get('kept')).toBe('yes')
})
