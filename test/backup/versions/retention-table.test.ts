import path from 'node:path'
import { expect, test } from 'vitest'
import { RetentionTable } from '../../../src/backup/versions/retention/retention-table.ts'
import { LocalState } from '../../../src/catalog/local-state.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

test('a table that an earlier version made is made again: what it held is read again from the object store', () => {
  const file = path.join(tempDirectory('cellstore-facts'), 'local.db')
  const old = new LocalState(file)
  old.define(`
    CREATE TABLE backup_versions (cell_id TEXT NOT NULL, version TEXT NOT NULL, size_bytes INTEGER NOT NULL, created_at INTEGER NOT NULL,
      origin TEXT NOT NULL, previous TEXT, PRIMARY KEY (cell_id, version)) STRICT, WITHOUT ROWID;
    INSERT INTO backup_versions VALUES ('cell', 'old', 1, 2, 'schedule', NULL)`)
  old.close()
  const facts = { version: 'new', sizeBytes: 1, createdAt: 2, at: 3, history: 'h', previous: null }
  for (let opened = 0; opened < 2; opened++) {
    const state = new LocalState(file)
    const table = new RetentionTable(state)
    if (opened === 0) table.addFacts('cell', { ...facts, origin: 'owner' })
    expect(table.facts('cell')).toEqual([{ ...facts, origin: 'owner' }])
    state.close()
  }
})
