import fs from 'node:fs'
import { isError } from '../base/any-realm.ts'
import { type Clock, delay } from '../base/clock.ts'
import { exists, replaceFile, writeNewFile } from '../base/files/durable-files.ts'
import type { StorePaths } from '../base/files/store-paths.ts'
import { processStartTime } from '../base/machine/machine.ts'
import { type Connection, databaseImage, openConnection } from '../engine/sqlite.ts'
import { CellError } from '../errors.ts'

export interface ProcessIdentity {
  pid: number
  /** Of the process, in clock ticks since boot: tells a reused pid. Null where the system doesn't say. */
  startTime: number | null
}

/** Who owns a store directory, for people and for commands that look for a running node. */
interface Owner extends ProcessIdentity {
  /** Unix socket of the running node, if it serves one. */
  socket: string | null
  /** Processes that hold cells open for the owner; a later owner ends those that have outlived it. */
  workers: readonly ProcessIdentity[]
  /** The process that makes the owner's backups and restores; a later owner ends it as well. */
  archiver?: ProcessIdentity | undefined
}

/**
 * Exclusive ownership of a store directory (invariant 2). What counts is SQLite's lock on `lock.db`, which the kernel
 * drops when the process dies, however it dies; `owner.json` only says who holds it.
 */
export class DirectoryLock {
  readonly #connection: Connection
  readonly #paths: StorePaths
  /** Tells the directory from its copies, during one run of the machine. */
  readonly identity: string
  /** What an earlier owner had on record. */
  readonly leftWorkers: readonly ProcessIdentity[]
  #owner: Owner

  private constructor(connection: Connection, paths: StorePaths, identity: string) {
    this.#connection = connection
    this.#paths = paths
    this.identity = identity
    // Until they have ended, those of the owner before stay on record.
    const { workers = [], archiver } = readOwner(paths) ?? {}
    this.leftWorkers = archiver === undefined ? workers : [...workers, archiver]
    this.#owner = { ...processIdentity(process.pid), socket: null, workers: this.leftWorkers }
    this.#publish()
  }

  /** @throws `store_locked`, with the owner's pid */
  static acquire(paths: StorePaths): DirectoryLock {
    if (!exists(paths.lock)) writeLockFile(paths.lock)
    const before = identityOf(paths.lock)
    let connection: Connection | undefined
    try {
      connection = openConnection(paths.lock)
      connection.exec('BEGIN EXCLUSIVE')
      // A start that fails removes what it has made, and so may have removed the very file that was just locked.
      if (before === undefined || identityOf(paths.lock) !== before) throw locked(paths)
      return new DirectoryLock(connection, paths, before)
    } catch (error) {
      connection?.close()
      throw isBusy(error) ? locked(paths) : error
    }
  }

  /** Tells others where the node listens. */
  publishSocket(socket: string | null): void {
    this.#owner = { ...this.#owner, socket }
    this.#publish()
  }

  /** Puts the workers on record: to be done before they open anything. */
  publishWorkers(workers: readonly ProcessIdentity[]): void {
    this.#owner = { ...this.#owner, workers }
    this.#publish()
  }

  /** As {@link publishWorkers}. */
  publishArchiver(archiver: ProcessIdentity | undefined): void {
    this.#owner = { ...this.#owner, archiver }
    this.#publish()
  }

  /** A repeat does nothing: by then another may own the directory. */
  release(): void {
    if (!this.#connection.open) return
    fs.rmSync(this.#paths.owner, { force: true })
    this.#connection.close()
  }

  /** The lock is what counts: on a full disk it is held without a word, rather than with a stale one. */
  #publish(): void {
    const { owner } = this.#paths
    try {
      replaceFile(owner, `${JSON.stringify(this.#owner)}\n`)
    } catch {
      fs.rmSync(owner, { force: true })
    }
  }
}

/** @returns what `owner.json` says, which may be of a process that is gone; undefined if there is none */
export function readOwner(paths: StorePaths): Owner | undefined {
  try {
    return JSON.parse(fs.readFileSync(paths.owner, 'utf8')) as Owner
  } catch {
    return undefined
  }
}

/** Not an empty file: locking that would write its first page, and so fail on a full disk. */
function writeLockFile(file: string): void {
  try {
    writeNewFile(file, databaseImage('PRAGMA user_version = 1', { wal: false }))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

function locked(paths: StorePaths): CellError {
  const pid = readOwner(paths)?.pid ?? '(unknown)'
  return new CellError(
    'store_locked',
    `The store ${paths.root} is in use by process ${pid}. One process owns a store at a time.`,
  )
}

/** Tells a file from another one of the same name. stat opens nothing, and so drops no lock (invariant 4). */
function identityOf(file: string): string | undefined {
  const stat = fs.statSync(file, { bigint: true, throwIfNoEntry: false })
  return stat && `${stat.dev}:${stat.ino}:${stat.birthtimeNs}`
}

function isBusy(error: unknown): boolean {
  return isError(error) && 'code' in error && String(error.code).startsWith('SQLITE_BUSY')
}

export function processIdentity(pid: number): ProcessIdentity {
  return { pid, startTime: processStartTime(pid) }
}

/** Names the commit log of a process among those of all processes of a store. */
export function logOwner({ pid, startTime }: ProcessIdentity): string {
  return `${pid}-${startTime ?? 0}`
}

/**
 * Whether workers of an earlier owner are still there: a worker inside a native statement notices the end of its node only
 * when that is over, and until then could commit (invariant 2). Each worker holds a shared lock on `workers.db`, which the
 * kernel drops when it ends, however it ends; a new owner needs it exclusively, once, before it opens anything.
 */

const WAIT_MS_MAX = 10_000
const LOOK_EVERY_MS = 10

/** Called by the owner before its first worker. */
export function prepareWorkers(paths: StorePaths): void {
  if (!exists(paths.workers)) writeLockFile(paths.workers)
}

/** Called in a worker; holds for as long as the process lives. */
export function joinWorkers(paths: StorePaths): void {
  const connection = openConnection(paths.workers)
  connection.exec('BEGIN')
  connection.prepare('SELECT count(*) FROM sqlite_schema').get()
  held.push(connection)
}

/** The lock goes with the connection, so that must not be collected. */
const held: unknown[] = []

/**
 * Ends the workers that an earlier owner has left, and waits until none is there.
 *
 * @param left those that it had on record
 * @throws `store_locked` if one does not end
 */
export async function endLeftWorkers(
  paths: StorePaths,
  left: readonly ProcessIdentity[],
  clock: Clock,
): Promise<void> {
  // A store that never had workers has none left.
  if (!exists(paths.workers)) return
  for (const identity of left) end(identity)
  const connection = openConnection(paths.workers)
  const deadline = clock.monotonic() + WAIT_MS_MAX
  try {
    for (;;) {
      try {
        connection.exec('BEGIN EXCLUSIVE; ROLLBACK')
        return
      } catch (error) {
        if (!isBusy(error)) throw error
        if (clock.monotonic() > deadline) throw stillThere(paths, left)
      }
      await delay(clock, LOOK_EVERY_MS)
    }
  } finally {
    connection.close()
  }
}

/** Only if it is the process that was put on record: a pid is used again. */
function end({ pid, startTime }: ProcessIdentity): void {
  if (startTime === null || processStartTime(pid) !== startTime) return
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // Gone already; or not ours to end, and then the lock shows it.
  }
}

function stillThere({ root }: StorePaths, left: readonly ProcessIdentity[]): CellError {
  const pids = left.map(({ pid }) => pid).join(', ')
  return new CellError(
    'store_locked',
    `Processes that held cells of the store ${root} for an earlier owner have not ended (${pids || 'unknown pids'}). End them, and start again.`,
  )
}
