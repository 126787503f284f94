import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { newCellId } from '../../src/base/files/store-paths.ts'
import { LocalState } from '../../src/catalog/local-state.ts'
import { ExpiryHints } from '../../src/kv/expiry/expiry-hints.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test('A process that closes no cell, as a node with workers, remembers the hints of some thousand cells, not of all (invariant 13)', () => {
  const state = new LocalState(path.join(tempDirectory(), 'local.db'), undefined)
  onTestFinished(() => state.close())
  const hints = new ExpiryHints(state)
  const cell = newCellId()
  expect(hints.note(cell, 1_000)).toBe(true)
  // A worker has collected what was due. Only the table knows that.
  state.prepare('UPDATE expiry_hints SET due = 9000 WHERE cell_id = ?').run(cell)
  expect(hints.note(cell, 5_000)).toBe(false)
  for (let i = 0; i < 20_000; i++) hints.note(newCellId(), 1_000)
  expect(hints.note(cell, 5_000)).toBe(true)
  expect(hints.first()?.due).toBe(1_000)
})
