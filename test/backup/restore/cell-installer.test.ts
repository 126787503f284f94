import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { ChangeTrackers } from '../../../src/backup/changes/change-trackers.ts'
import { BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import { CellInstaller } from '../../../src/backup/restore/install/cell-installer.ts'
import { CellPaths } from '../../../src/base/files/store-paths.ts'
import { LocalState } from '../../../src/catalog/local-state.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const ID = 'aaaaaaaa-0000-4000-8000-000000000000'
const INSTALL = { isNewest: true, version: 'restored', last: 'v2', line: 0 }

let paths: CellPaths
let progress: BackupProgressTable
let installer: CellInstaller

/** A process that may open the cell: each worker has such a part of its own. */
function newProcess(switched = () => {}): CellInstaller {
  const clock = new FakeClock()
  const trackers = new ChangeTrackers(() => paths, progress, clock)
  const replace = (_id: string, install: () => void) => {
    install()
    switched()
  }
  return new CellInstaller({ trackers, progress, clock, paths: () => paths, isOpen: () => false, replace })
}

beforeEach(() => {
  const directory = tempDirectory()
  paths = new CellPaths(path.join(directory, 'cell'))
  fs.mkdirSync(paths.directory)
  progress = new BackupProgressTable(LocalState.join(path.join(directory, 'local.db')))
  installer = newProcess()
  fs.writeFileSync(paths.database, 'old')
})

const database = () => fs.readFileSync(paths.database, 'utf8')

describe('A cell’s incoming.db', () => {
  test('is left alone by every process that knows of its build, and removed as a left-over by all others', () => {
    installer.begin(ID)
    fs.writeFileSync(paths.restoreTarget, 'half')
    installer.beforeOpen(ID)
    const told = newProcess()
    told.building = [ID]
    told.beforeOpen(ID)
    expect(fs.existsSync(paths.restoreTarget)).toBe(true)
    installer.end(ID)
    installer.beforeOpen(ID)
    expect(fs.existsSync(paths.restoreTarget)).toBe(false)
    expect(database()).toBe('old')
  })
})

test('An installation is done once the switch is, also if nothing can be noted any more: the cell counts as changed', () => {
  fs.writeFileSync(paths.restoreTarget, 'restored')
  const onFullDisk = newProcess(() => {
    vi.spyOn(progress, 'save').mockImplementationOnce(() => {
      throw new Database.SqliteError('database or disk is full', 'SQLITE_FULL')
    })
  })
  onFullDisk.install(ID, INSTALL)
  expect(database()).toBe('restored')
  expect(progress.find(ID)).toMatchObject({ chain: null, dirty: true })
})

describe('An installation whose process ends is repeated in the next one:', () => {
  beforeEach(() => fs.writeFileSync(paths.restoreTarget, 'restored'))

  test('if the switch was not decided, it is done then', () => {
    installer.install(ID, { ...INSTALL, isRepeat: true })
    expect(database()).toBe('restored')
  })

  test('if it was decided, it is completed', () => {
    fs.writeFileSync(paths.restoreIntent, '')
    installer.install(ID, { ...INSTALL, isRepeat: true })
    expect(database()).toBe('restored')
    expect(fs.readdirSync(paths.directory)).toEqual(['cell.db'])
  })

  test('if it was done, what was written to the restored cell since then stays, and counts as changed', () => {
    installer.install(ID, INSTALL)
    expect(progress.find(ID)).toMatchObject({ chain: null, dirty: false })
    fs.writeFileSync(paths.database, 'restored and changed')
    progress.save({ ...progress.find(ID), dirty: true })
    newProcess().install(ID, { ...INSTALL, isRepeat: true })
    expect(database()).toBe('restored and changed')
    expect(progress.find(ID)).toMatchObject({ dirty: true })
  })

  test('a first try without a built database is refused, and the old one stays', () => {
    fs.rmSync(paths.restoreTarget)
    expect(() => installer.install(ID, INSTALL)).toThrow()
    expect(database()).toBe('old')
  })
})
