import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import { type BackupProgress, BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import { type CellPaths, newCellId, StorePaths } from '../../../src/base/store-paths.ts'
import { LocalState } from '../../../src/catalog/local-state.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

/** The table as the node and one of its workers have it. */
function openTables(): { paths: StorePaths; ofNode: BackupProgressTable; ofWorker: BackupProgressTable } {
  const root = tempDirectory()
  const file = path.join(root, 'local.db')
  const owner = new LocalState(file)
  const joined = LocalState.join(file)
  onTestFinished(() => {
    joined.close()
    owner.close()
  })
  return {
    paths: new StorePaths(root),
    ofNode: new BackupProgressTable(owner),
    ofWorker: new BackupProgressTable(joined),
  }
}

function progressOf(cellId: string): BackupProgress {
  const database = { size: 1, mtimeNs: '1', ctimeNs: '1', ino: '1' } as never
  const chain = { versions: ['version'], walBytes: 0, through: 1, newest: 1, database }
  return {
    cellId,
    chain,
    base: null,
    history: null,
    lastVersion: 'version',
    dirty: false,
    dirtySinceSnapshot: false,
    lastBackupAt: 1,
    lastSnapshotAt: 2,
    changedAt: null,
    storedTo: null,
  }
}

function trackerParts(paths: CellPaths, table: BackupProgressTable, clock: FakeClock) {
  return { paths, table, clock, isShipped: false, onChange: () => {}, onUnshipped: () => {} }
}

test('a cell that the node finds changed after a crash keeps what its worker has saved of its backups meanwhile', () => {
  const { paths, ofNode, ofWorker } = openTables()
  const cellId = newCellId()
  const told: string[] = []
  const clock = new FakeClock()
  const parts = trackerParts(paths.cell(cellId), ofNode, clock)
  const tracker = new ChangeTracker(cellId, { ...parts, onChange: () => told.push(cellId) })
  const saved = progressOf(cellId)
  ofWorker.save(saved)
  tracker.markChanged()
  expect(ofWorker.find(cellId)).toEqual({
    ...saved,
    dirty: true,
    dirtySinceSnapshot: true,
    changedAt: clock.now(),
  })
  expect(told).toEqual([cellId])
})

test('a cell without a row that is found changed is due one interval from now', () => {
  const { paths, ofNode } = openTables()
  const cellId = newCellId()
  const clock = new FakeClock()
  new ChangeTracker(cellId, trackerParts(paths.cell(cellId), ofNode, clock)).markChanged()
  expect(ofNode.find(cellId)).toMatchObject({
    chain: null,
    dirty: true,
    dirtySinceSnapshot: true,
    lastBackupAt: clock.now(),
    lastSnapshotAt: clock.now(),
    changedAt: clock.now(),
  })
})
