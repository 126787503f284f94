import path from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { BackupProgress } from '../../../src/backup/changes/backup-progress.ts'
import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import { ChangeTrackers } from '../../../src/backup/changes/change-trackers.ts'
import type { History } from '../../../src/backup/changes/history.ts'
import type { IncrementalCut } from '../../../src/backup/changes/log/cell-cuts.ts'
import { BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import { type CellPaths, newCellId, StorePaths } from '../../../src/base/files/store-paths.ts'
import { LocalState } from '../../../src/catalog/local-state.ts'
import type { CellDatabase } from '../../../src/engine/cell-database.ts'
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

const database = { size: 1, mtimeNs: '1', ctimeNs: '1', ino: '1' } as never

function progressOf(cellId: string): BackupProgress {
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
    line: 0,
    storedTo: null,
    repeats: null,
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
  tracker.setChanged()
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
  new ChangeTracker(cellId, trackerParts(paths.cell(cellId), ofNode, clock)).setChanged()
  expect(ofNode.find(cellId)).toMatchObject({
    chain: null,
    dirty: true,
    dirtySinceSnapshot: true,
    lastBackupAt: clock.now(),
    lastSnapshotAt: clock.now(),
    changedAt: clock.now(),
  })
})

/** A history that has come as far as the time. */
const historyTo = (at: number): History => ({
  id: 'history',
  sequence: 1,
  frames: 1,
  at,
  shippedAt: at,
  newest: 1,
  sealed: 1,
  database,
  isStored: true,
})

describe('A worker that first takes what had come before from the node', () => {
  const cellIds = { inUse: newCellId(), released: newCellId() }
  let ofNode: BackupProgressTable
  let trackers: ChangeTrackers
  let told: string[]
  beforeEach(() => {
    const { paths, ofNode: node, ofWorker } = openTables()
    ofNode = node
    for (const cellId of Object.values(cellIds))
      ofNode.save({ ...progressOf(cellId), history: historyTo(50), line: 10 })
    const clock = new FakeClock()
    trackers = new ChangeTrackers(
      (cellId) => paths.cell(cellId),
      ofWorker,
      clock,
      () => true,
    )
    told = []
    trackers.changed.listen((cellId) => told.push(cellId))
    for (const cellId of Object.values(cellIds)) {
      trackers.acquire(cellId)
      trackers.get(cellId)
    }
  })

  /** It notes in its rows that versions are stored, as they were when it was asked. */
  function storeVersions(): void {
    for (const cellId of Object.values(cellIds)) {
      const { progress } = trackers.get(cellId)
      const cut: IncrementalCut = {
        kind: 'incremental',
        chain: ['version'],
        segments: [],
        cutAt: 3,
        sqliteVersion: '',
      }
      trackers.get(cellId).stored({ version: 'next', kind: 'snapshot', cut })
      expect(ofNode.find(cellId)).toMatchObject({ dirty: false, chain: progress.chain })
    }
    trackers.release(cellIds.released)
  }

  test('has every cell changed, and no chain and no history go on, once it hears that nothing is stored where backups go (invariant 14)', () => {
    ofNode.setNothingStored()
    storeVersions()
    trackers.setNothingStored()
    const changed = { dirty: true, dirtySinceSnapshot: true }
    for (const cellId of Object.values(cellIds))
      expect(ofNode.find(cellId)).toMatchObject({ ...changed, chain: null, history: null, storedTo: null })
    expect(trackers.get(cellIds.inUse).isChanged).toBe(true)
    expect(told).toContain(cellIds.inUse)
  })

  test('has no history go on, once it hears that they have ended', () => {
    ofNode.endHistories()
    storeVersions()
    trackers.endHistories()
    for (const cellId of Object.values(cellIds)) expect(ofNode.find(cellId).history).toBeNull()
  })

  test.each(['setNothingStored', 'endHistories'] as const)(
    'gives no commit a time before those of the history that has ended (%s)',
    (end) => {
      ofNode[end]()
      for (const cellId of Object.values(cellIds)) expect(ofNode.find(cellId).line).toBe(50)
      trackers[end]()
      for (const cellId of Object.values(cellIds)) expect(ofNode.find(cellId).line).toBe(50)
    },
  )
})

test('the time of a cut whose row could not be saved is saved when the cell is closed', () => {
  const { paths, ofNode } = openTables()
  const cellId = newCellId()
  const clock = new FakeClock()
  const parts = { ...trackerParts(paths.cell(cellId), ofNode, clock), isShipped: true }
  const tracker = new ChangeTracker(cellId, parts)
  const closed = { dirty: false } as CellDatabase
  const save = vi.spyOn(ofNode, 'save').mockImplementationOnce(() => {
    throw new Error('disk full (injected)')
  })
  tracker.cut(closed, 'version')
  expect([save.mock.calls.length, ofNode.find(cellId).line]).toEqual([1, 0])
  tracker.hooks.closed?.()
  expect(ofNode.find(cellId).line).toBe(clock.now() + 1)
})

test('others can save while the steps run whose rows are saved together: they would wait for longer than that takes', () => {
  const { ofNode, ofWorker } = openTables()
  const [first, second, other] = [newCellId(), newCellId(), newCellId()]
  ofWorker.together(() => {
    ofWorker.save(progressOf(first))
    // A step sees what an earlier one has saved.
    expect(ofWorker.find(first)).toEqual(progressOf(first))
    ofNode.save(progressOf(other))
    ofWorker.save(progressOf(second))
  })
  for (const id of [first, second, other]) expect(ofNode.find(id)).toEqual(progressOf(id))
})

test('what was saved before a step that fails is kept', () => {
  const { ofNode, ofWorker } = openTables()
  const cellId = newCellId()
  const fail = () =>
    ofWorker.together(() => {
      ofWorker.save(progressOf(cellId))
      throw new Error('The next step has failed.')
    })
  expect(fail).toThrow('The next step has failed.')
  expect(ofNode.find(cellId)).toEqual(progressOf(cellId))
  ofWorker.save({ ...progressOf(cellId), lastBackupAt: 3 })
  expect(ofNode.find(cellId).lastBackupAt).toBe(3)
})
