import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test, vi } from 'vitest'
import { finishRestore, installRestored } from '../../../src/backup/restore/install/restore-install.ts'
import { CellPaths } from '../../../src/base/files/store-paths.ts'
import type { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'
import { filesBelow, tempDirectory } from '../../support/temp-directory.ts'

/** A cell keeps its restored database beside its own; the catalog in a folder of its own. */
const LAYOUTS = {
  cell: (root: string) => new CellPaths(path.join(root, 'cell')),
  catalog: (root: string) => new CellPaths(path.join(root, 'catalog'), path.join(root, 'catalog.db')),
}

/**
 * What lies on the disk right before the switch: a proven `incoming.db`, and the old cell, with everything beside it that
 * could be applied to the new one: a hot log, shared memory, a hot journal, kept segments.
 */
function prepare(layout: keyof typeof LAYOUTS): string {
  const root = tempDirectory()
  const paths = LAYOUTS[layout](root)
  fs.mkdirSync(paths.directory, { recursive: true })
  makeDatabase(paths.restoreTarget, 'new', 50)
  const live = path.join(tempDirectory(), 'live.db')
  makeDatabase(live, 'old', 30)
  const connection = new Database(live)
  connection.pragma('wal_autocheckpoint = 0')
  connection.exec("INSERT INTO t SELECT value, 'old' FROM json_each('[31, 32, 33]')")
  // As a killed process leaves it. Copied by another process: closing it here would drop the locks.
  execFileSync('cp', [live, paths.database])
  execFileSync('cp', [`${live}-wal`, `${paths.database}-wal`])
  execFileSync('cp', [`${live}-shm`, `${paths.database}-shm`])
  connection.close()
  fs.mkdirSync(paths.segments)
  fs.writeFileSync(path.join(paths.segments, '000000000001-0000000000000000-1-4096.wal'), 'kept')
  return root
}

function makeDatabase(file: string, note: string, rows: number): void {
  const connection = new Database(file)
  connection.pragma('journal_mode = WAL')
  connection.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, note)')
  for (let n = 1; n <= rows; n++) connection.prepare('INSERT INTO t VALUES (?, ?)').run(n, note)
  connection.close()
}

/** What SQLite finds after the next start. */
function stateOf(paths: CellPaths): string {
  finishRestore(paths)
  expect(fs.existsSync(paths.restoreIntent)).toBe(false)
  expect(fs.existsSync(paths.restoreTarget)).toBe(false)
  const connection = new Database(paths.database, { fileMustExist: true })
  try {
    expect(connection.pragma('integrity_check', { simple: true })).toBe('ok')
    const rows = connection.prepare('SELECT note, count(*) AS n FROM t GROUP BY note').all()
    return JSON.stringify(rows)
  } finally {
    connection.close()
  }
}

const OLD = '[{"note":"old","n":33}]'
const NEW = '[{"note":"new","n":50}]'

class Killed extends Error {}

/** Lets the process die before its n-th call that changes the disk: nothing it does afterwards has an effect. */
function killAt(n: number): { calls: number } {
  const seen = { calls: 0 }
  const names = [
    'openSync',
    'writeSync',
    'fsyncSync',
    'closeSync',
    'renameSync',
    'rmSync',
    'mkdirSync',
  ] as const
  for (const name of names) {
    const real = fs[name] as (...args: unknown[]) => unknown
    vi.spyOn(fs, name).mockImplementation(((...args: unknown[]) => {
      seen.calls++
      if (seen.calls >= n) throw new Killed()
      return real(...args)
    }) as never)
  }
  return seen
}

describe.each(['cell', 'catalog'] as const)('A switch of the %s (invariant 10)', (layout) => {
  test('takes the new database, without the old one’s log and journal', () => {
    const paths = LAYOUTS[layout](prepare(layout))
    installRestored(paths)
    expect(
      filesBelow(path.dirname(paths.database)).filter((file) => !file.includes('incoming')),
    ).toHaveLength(1)
    expect(stateOf(paths)).toBe(NEW)
  })

  test('that is killed at any step leaves the old one or the new one, whole', () => {
    const outcomes = new Set<string>()
    for (let n = 1; ; n++) {
      const paths = LAYOUTS[layout](prepare(layout))
      const seen = killAt(n)
      let killed = false
      try {
        installRestored(paths)
      } catch (error) {
        if (!(error instanceof Killed)) throw error
        killed = true
      }
      vi.restoreAllMocks()
      const state = stateOf(paths)
      expect([OLD, NEW], `killed at call ${n}`).toContain(state)
      outcomes.add(state)
      if (!killed) {
        expect(seen.calls).toBeGreaterThan(15)
        break
      }
    }
    expect([...outcomes].sort()).toEqual([NEW, OLD])
  })

  test('whose finishing is killed at any step is finished the next time', () => {
    for (let n = 1; ; n++) {
      const paths = LAYOUTS[layout](prepare(layout))
      fs.writeFileSync(paths.restoreIntent, '')
      killAt(n)
      let killed = false
      try {
        finishRestore(paths)
      } catch (error) {
        if (!(error instanceof Killed)) throw error
        killed = true
      }
      vi.restoreAllMocks()
      expect(stateOf(paths), `killed at call ${n}`).toBe(NEW)
      if (!killed) break
    }
  })

  test('that loses power at any step, with any of the unsynced steps lost, leaves the old one or the new one, whole', () => {
    const random = seededRandom()
    const trace = recordSteps(layout)
    let states = 0
    for (let end = 0; end <= trace.length; end++) {
      for (const kept of survivors(trace.slice(0, end), random)) {
        const root = prepare(layout)
        for (const step of kept) replay(root, step)
        expect([OLD, NEW], JSON.stringify(kept)).toContain(stateOf(LAYOUTS[layout](root)))
        states++
      }
    }
    console.info(`${states} states after a power loss`)
  })

  test('that cannot be begun leaves the old one, and nothing to be finished', () => {
    // Its syncs before it is decided: of the folder, of the intent, of the folder again.
    for (const failing of [1, 2, 3]) {
      const paths = LAYOUTS[layout](prepare(layout))
      const { fsyncSync } = fs
      let calls = 0
      vi.spyOn(fs, 'fsyncSync').mockImplementation((fd) => {
        calls++
        if (calls === failing) throw Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' })
        fsyncSync(fd)
      })
      expect(() => installRestored(paths)).toThrow('EIO')
      vi.restoreAllMocks()
      expect(stateOf(paths)).toBe(OLD)
    }
  })

  test('is not undone by a rollback journal of the old one', () => {
    const paths = LAYOUTS[layout](prepare(layout))
    hotJournalBeside(paths.database)
    installRestored(paths)
    expect(stateOf(paths)).toBe(NEW)
  })

  test('never touches the log of a cell that has gone on since the rename', () => {
    const paths = LAYOUTS[layout](prepare(layout))
    installRestored(paths)
    const live = new Database(paths.database)
    live.pragma('wal_autocheckpoint = 0')
    live.prepare('INSERT INTO t VALUES (?, ?)').run(99, 'acknowledged since')
    execFileSync('cp', [paths.database, `${paths.database}-wal`, tempDirectory()])
    // An intent that came back without its file.
    fs.writeFileSync(paths.restoreIntent, '')
    finishRestore(paths)
    expect(fs.existsSync(`${paths.database}-wal`)).toBe(true)
    expect(live.prepare('SELECT count(*) FROM t').pluck().get()).toBe(51)
    live.close()
  })
})

describe.each(['cell', 'catalog'] as const)(
  'A switch of a lost %s, of which nothing is left (invariant 10)',
  (layout) => {
    const LOST = 'lost'

    function prepareLost(): string {
      const root = tempDirectory()
      const paths = LAYOUTS[layout](root)
      fs.mkdirSync(paths.directory, { recursive: true })
      makeDatabase(paths.restoreTarget, 'new', 50)
      return root
    }

    function stateOrLost(paths: CellPaths): string {
      finishRestore(paths)
      return fs.existsSync(paths.database) ? stateOf(paths) : LOST
    }

    test('is one rename, whose folders are synced once each', () => {
      const root = prepareLost()
      const steps = recordSteps(layout, root)
      const folders = layout === 'cell' ? ['cell'] : ['', 'catalog']
      expect(steps.map((step) => step.do)).toEqual(['rename', ...folders.map(() => 'sync')])
      expect(steps.flatMap((step) => (step.do === 'sync' ? [step.directory] : []))).toEqual(folders)
      expect(stateOf(LAYOUTS[layout](root))).toBe(NEW)
    })

    test('that is killed at any step leaves it lost, or the new one, whole', () => {
      const outcomes: string[] = []
      for (let n = 1, killed = true; killed; n++) {
        const paths = LAYOUTS[layout](prepareLost())
        killAt(n)
        killed = false
        try {
          installRestored(paths)
        } catch (error) {
          if (!(error instanceof Killed)) throw error
          killed = true
        }
        vi.restoreAllMocks()
        outcomes.push(stateOrLost(paths))
      }
      expect([...new Set(outcomes)]).toEqual([LOST, NEW])
    })

    test('that loses power at any step leaves it lost, or the new one, whole', () => {
      const random = seededRandom()
      const trace = recordSteps(layout, prepareLost())
      for (let end = 0; end <= trace.length; end++) {
        for (const kept of survivors(trace.slice(0, end), random)) {
          const root = prepareLost()
          for (const step of kept) replay(root, step)
          expect([LOST, NEW], JSON.stringify(kept)).toContain(stateOrLost(LAYOUTS[layout](root)))
        }
      }
      const root = prepareLost()
      for (const step of survivors(trace, random).flat()) replay(root, step)
      expect(stateOrLost(LAYOUTS[layout](root))).toBe(NEW)
    })

    test.each(['-wal', '-shm', '-journal'])(
      'removes a %s that was left without its database first',
      (suffix) => {
        const paths = LAYOUTS[layout](prepareLost())
        fs.writeFileSync(paths.database + suffix, 'of the old one')
        installRestored(paths)
        expect(fs.existsSync(paths.database + suffix)).toBe(false)
        expect(stateOf(paths)).toBe(NEW)
      },
    )

    test('removes segments that were left without their database', () => {
      const paths = LAYOUTS[layout](prepareLost())
      fs.mkdirSync(paths.segments)
      installRestored(paths)
      expect(fs.existsSync(paths.segments)).toBe(false)
      expect(stateOf(paths)).toBe(NEW)
    })
  },
)

/** A journal that SQLite would roll back into whatever database it finds beside it. */
function hotJournalBeside(database: string): void {
  const other = path.join(tempDirectory(), 'other.db')
  const connection = new Database(other)
  connection.pragma('journal_mode = DELETE')
  connection.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, note)')
  connection.exec("INSERT INTO t VALUES (1, 'from the journal')")
  connection.pragma('cache_spill = 1')
  connection.exec("BEGIN IMMEDIATE; UPDATE t SET note = 'changed'")
  connection.pragma('cache_size = 1')
  for (let n = 2; n < 200; n++) connection.prepare('INSERT INTO t VALUES (?, randomblob(2000))').run(n)
  execFileSync('cp', [`${other}-journal`, `${database}-journal`])
  connection.close()
}

type Step =
  | { do: 'create' | 'remove'; file: string }
  | { do: 'rename'; from: string; to: string }
  | { do: 'sync'; directory: string }

/** The steps of a switch that directories must remember, with paths relative to the root. */
function recordSteps(layout: keyof typeof LAYOUTS, root = prepare(layout)): Step[] {
  const steps: Step[] = []
  const opened = new Map<number, string>()
  const relative = (file: unknown) => path.relative(root, String(file))
  const { openSync, fsyncSync, renameSync, rmSync } = fs
  vi.spyOn(fs, 'openSync').mockImplementation((file, flags, mode) => {
    const fd = openSync(file, flags, mode)
    opened.set(fd, relative(file))
    if (String(flags).startsWith('w')) steps.push({ do: 'create', file: relative(file) })
    return fd
  })
  vi.spyOn(fs, 'fsyncSync').mockImplementation((fd) => {
    fsyncSync(fd)
    const directory = opened.get(fd) as string
    if (fs.statSync(path.join(root, directory)).isDirectory()) steps.push({ do: 'sync', directory })
  })
  vi.spyOn(fs, 'renameSync').mockImplementation((from, to) => {
    renameSync(from, to)
    steps.push({ do: 'rename', from: relative(from), to: relative(to) })
  })
  vi.spyOn(fs, 'rmSync').mockImplementation((file, options) => {
    if (fs.existsSync(file)) steps.push({ do: 'remove', file: relative(file) })
    rmSync(file, options)
  })
  installRestored(LAYOUTS[layout](root))
  vi.restoreAllMocks()
  return steps
}

/** What can be left of a run of steps: all that were synced, and any choice of the others. */
function survivors(steps: readonly Step[], random: Random): Step[][] {
  const touched = (step: Step) =>
    step.do === 'rename'
      ? [path.dirname(step.from), path.dirname(step.to)]
      : step.do === 'sync'
        ? []
        : [path.dirname(step.file)]
  const isSynced = (i: number) => {
    const later = steps.slice(i).flatMap((step) => (step.do === 'sync' ? [step.directory || '.'] : []))
    return touched(steps[i] as Step).every((directory) => later.includes(directory))
  }
  const changes = steps.flatMap((step, i) => (step.do === 'sync' ? [] : [{ step, synced: isSynced(i) }]))
  const choices = new Map<string, Step[]>()
  for (let attempt = 0; attempt < 24; attempt++) {
    const kept = changes.filter(({ synced }) => synced || random.chance(attempt / 23)).map(({ step }) => step)
    choices.set(JSON.stringify(kept), kept)
  }
  return [...choices.values()]
}

function replay(root: string, step: Step): void {
  const at = (file: string) => path.join(root, file)
  if (step.do === 'create') fs.writeFileSync(at(step.file), '')
  else if (step.do === 'remove') fs.rmSync(at(step.file), { recursive: true, force: true })
  // A rename whose source is gone by then was one of a file that another step took away.
  else if (step.do === 'rename' && fs.existsSync(at(step.from))) fs.renameSync(at(step.from), at(step.to))
}
