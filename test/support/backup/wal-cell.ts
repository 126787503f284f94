import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { LogPiece, ShippedPlace, UnshippedLog } from '../../../src/backup/changes/log/cell-log.ts'
import type { Clock } from '../../../src/base/clock.ts'
import { walBytes } from '../../../src/engine/wal/wal-file.ts'

interface Wal {
  sequence: number
  salts: string
  pageSize: number
  path: string
  commits: [frames: number, time: number][]
}

/** A SQLite database whose WALs are kept until they are shipped, and the times of its commits. */
export class WalCell {
  readonly cellId = randomUUID()
  accountId: string | null = null
  history = randomUUID()
  readonly #database: Database.Database
  readonly #folder: string
  readonly #clock: Clock
  /** The last one is the live WAL. */
  readonly #wals: Wal[] = []
  #place: ShippedPlace
  #rows = 0

  constructor(folder: string, clock: Clock) {
    this.#folder = path.join(folder, this.cellId)
    fs.mkdirSync(this.#folder, { recursive: true })
    this.#clock = clock
    this.#database = new Database(this.databasePath)
    this.#database.exec('PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0')
    fs.copyFileSync(this.databasePath, this.firstDatabase)
    this.#place = { cellId: this.cellId, history: this.history, sequence: 0, frames: 0 }
    this.#run(() => this.#database.exec('CREATE TABLE rows (n INTEGER PRIMARY KEY, payload BLOB)'))
  }

  /** Commits one more row. */
  commit(bytes = 100): void {
    const n = ++this.#rows
    this.#run(() => this.#database.prepare('INSERT INTO rows VALUES (?, randomblob(?))').run(n, bytes))
  }

  get databasePath(): string {
    return path.join(this.#folder, 'cell.db')
  }

  /** A copy of the database from before its first WAL. */
  get firstDatabase(): string {
    return path.join(this.#folder, 'first.db')
  }

  /** How many rows the cell has. */
  get rows(): number {
    return this.#rows
  }

  /** The live WAL becomes a segment, and SQLite begins the next one with the next commit. */
  checkpoint(): void {
    const live = this.#wals.at(-1) as Wal
    const kept = path.join(this.#folder, `${live.sequence}.wal`)
    fs.copyFileSync(live.path, kept)
    live.path = kept
    this.#database.pragma('wal_checkpoint(RESTART)')
  }

  unshipped(): UnshippedLog | undefined {
    const { sequence: at, frames } = this.#place
    const pieces = this.#wals
      .filter(({ sequence }) => sequence >= at)
      .map(({ commits, ...wal }): LogPiece => {
        const from = wal.sequence === at ? frames : 0
        const [to] = commits.at(-1) as [number, number]
        return { ...wal, from, to, commits: commits.filter(([end]) => end > from) }
      })
      .filter(({ from, to }) => to > from)
    return pieces.length === 0
      ? undefined
      : { cellId: this.cellId, accountId: this.accountId, history: this.history, pieces }
  }

  /** Its WALs cannot be read, and it has more than it tells at once. @returns undoes it */
  makeUnreadable(): () => void {
    const wals = this.#wals.map((wal) => ({ wal, path: wal.path }))
    // The folder of files: reading it fails.
    for (const wal of this.#wals) wal.path = this.#folder
    return () => {
      for (const each of wals) each.wal.path = each.path
    }
  }

  shipped(place: ShippedPlace): void {
    if (place.history !== this.history) return
    this.#place = place
  }

  /** What is not shipped will not be in the log. */
  dropHistory(): void {
    const last = this.#wals.at(-1) as Wal
    this.history = randomUUID()
    const [frames] = last.commits.at(-1) as [number, number]
    this.#place = { cellId: this.cellId, history: this.history, sequence: last.sequence, frames }
  }

  close(): void {
    this.#database.close()
  }

  #run(change: () => void): void {
    change()
    const live = path.join(this.#folder, 'cell.db-wal')
    const head = fs.readFileSync(live).subarray(0, 32)
    const salts = head.toString('hex', 16, 24)
    const pageSize = head.readUInt32BE(8)
    let wal = this.#wals.at(-1)
    if (wal?.salts !== salts) {
      const sequence = (wal?.sequence ?? 0) + 1
      wal = { sequence, salts, pageSize, path: live, commits: [] }
      this.#wals.push(wal)
    }
    wal.commits.push([lastCommit(live, salts, pageSize), this.#clock.now()])
  }
}

/** The frames of a WAL up to its last commit. */
function lastCommit(file: string, salts: string, pageSize: number): number {
  const bytes = fs.readFileSync(file)
  let last = 0
  for (let frame = 0; walBytes(frame + 1, pageSize) <= bytes.length; frame++) {
    const at = walBytes(frame, pageSize)
    if (bytes.toString('hex', at + 8, at + 16) !== salts) break
    if (bytes.readUInt32BE(at + 4) > 0) last = frame + 1
  }
  return last
}
