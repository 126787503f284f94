import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { BackupDestination } from '../../../src/backup/archiver/backup-destination.ts'
import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import type { LogPosition, ShippedPlace } from '../../../src/backup/changes/log/cell-log.ts'
import { LogCollector } from '../../../src/backup/changes/log/log-collector.ts'
import { Segments } from '../../../src/backup/changes/log/segments.ts'
import { silentLog } from '../../../src/base/log.ts'
import { parseWalHeader, walBytes } from '../../../src/engine/wal/wal-file.ts'
import { isCellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import type { Random } from '../random.ts'
import { filesBelow, tempDirectory } from '../temp-directory.ts'
import { digestOf, digestOfFile } from './database-digest.ts'
import { ForeignProgram } from './foreign-program.ts'
import { FailingStore } from './object-store-decorators.ts'
import { ScratchPlace } from './scratch-store.ts'
import { recover, ShippedLogs } from './shipped-logs.ts'

const SETTINGS = {
  openCellsMax: 1,
  checkpointBytes: 40_000,
  // Its cells have histories.
  backups: { maxLagMs: 3_600_000 },
} as const
const ALL = { cellsMax: 1_000, bytesMax: 1_000_000_000 }

interface Commit {
  digest: string
  /** The earliest time that it may have. It is earlier than `until` if the process ended before it could tell. */
  time: number
  /** When it was made. */
  until: number
}

interface Version {
  position: LogPosition
  image: string
  /** Number of the last commit in it. */
  holds: number
}

/**
 * A cell that is written, closed, killed and backed up while its logs are shipped, with answers that get lost. Every commit is
 * known with its time, so that each moment can be restored from what was shipped, and compared.
 */
export class HistoryModel {
  readonly #place = new ScratchPlace()
  /** The store's own shipper gets nothing through: the model ships, into {@link ShippedLogs}. */
  readonly #objects = new FailingStore(this.#place.folder())
  readonly #random: Random
  readonly #shipped = new ShippedLogs()
  /** What of it the cell knows to be shipped. */
  readonly #answered = new ShippedLogs()
  #commits: Commit[] = []
  /** Versions, and how many commits were certainly shipped in their histories. */
  #versions: Version[] = []
  readonly #covered = new Map<string, number>()
  /** The same, of what the cell knows to be shipped. */
  readonly #known = new Map<string, number>()
  readonly steps: string[] = []
  /** After which commit each step came, for a report. */
  readonly marks = new Map<number, string>()
  readonly counts = { moments: 0, versions: 0, pieces: 0, histories: 0, crashes: 0, holes: 0 }
  #store!: CellStore
  #cell!: Cell
  #other!: Cell
  #last = 0
  #rows = 0
  /** What follows the newest version has this time or a later one. */
  #storedAt = 0
  /** The latest time from which the clock stepped back. */
  #newest = 0
  /** How many versions were begun. */
  #cuts = 0
  /** Frames of logs, by their salts, of which the cell does not know that they were shipped. */
  readonly #unanswered = new Map<string, number>()

  constructor(random: Random) {
    this.#random = random
    this.#objects.forGood = true
    this.#objects.failFromHere(1, (_, key) => key.startsWith('log/'))
  }

  async start(): Promise<void> {
    this.#store = await this.#place.create({ ...SETTINGS, objectStore: this.#objects })
    this.#cell = this.#store.createCell()
    this.#other = this.#store.createCell()
    this.#commit(() => this.#cell.sql('CREATE TABLE t (n INTEGER PRIMARY KEY, x)'))
    await this.#backup('incremental')
  }

  async step(): Promise<void> {
    const [name, run] = this.#choose()
    this.steps.push(name)
    await run()
    this.#noteHoles()
    const last = this.#commits.length - 1
    this.marks.set(last, `${this.marks.get(last) ?? ''} ${name},`)
  }

  async dispose(): Promise<void> {
    await this.#place.directory.close()
  }

  /** A power loss takes what was shipped from the log, and as much is committed instead before the next tick. */
  async loseWhatWasShipped(): Promise<void> {
    // What follows the version is a millisecond later.
    this.#place.clock.advance(1)
    for (let i = 0; i < 4; i++) this.#commit(() => this.#change(10))
    await this.#ship()
    await this.#crash(true, 1, 6)
    await this.prove()
  }

  /** Every version, with what was shipped after it, is the cell at each of some moments. */
  async prove(): Promise<void> {
    await this.#ship()
    for (const { position, image, holds } of this.#versions) {
      this.counts.versions++
      const covered = this.#covered.get(position.history) ?? holds
      const moments = this.#commits.slice(holds, covered + 1).flatMap(({ time, until }) => [time, until])
      for (const at of new Set([...some(moments, this.#random, 6), moments.at(-1)])) {
        if (at === undefined) continue
        const least = this.#commits.findLastIndex(({ until }, i) => until <= at && i <= covered)
        const most = this.#commits.findLastIndex(({ time }, i) => time <= at && i <= covered)
        // What another history has of that moment is not in this one.
        if (this.#commits.some(({ time }, i) => i > covered && time <= at)) continue
        const digest = digestOfFile(this.#shipped.restore(image, position, at))
        this.counts.moments++
        const found = this.#commits.findIndex((commit) => commit.digest === digest)
        if (found < Math.max(least, holds) || found > Math.max(most, holds))
          throw new Error(
            `the version with ${holds} commits (${JSON.stringify(position)}) restored to ${at} has ${found} of ${least} to ${most}, covered ${covered}\n${this.#commits.map(({ time, until }, i) => `${i}:${time % 100_000}-${until % 100_000}${this.marks.get(i) ?? ''}`).join(' ')}\n${this.#shipped.told(position)}`,
          )
      }
    }
  }

  #choose(): [string, () => void | Promise<void>] {
    const choices: [number, string, () => void | Promise<void>][] = [
      [40, 'write', () => this.#write(200)],
      [12, 'write much', () => this.#write(9_000)],
      [6, 'a transaction in which time passes', () => this.#slowTransaction()],
      [25, 'ship', () => this.#ship()],
      [10, 'ship a part', () => this.#shipPart()],
      [6, 'ship, and lose the answer', () => this.#ship({ isAnswered: false })],
      [8, 'let the pool close it', () => void this.#other.sql('PRAGMA user_version')],
      [8, 'incremental', () => this.#backup('incremental')],
      [3, 'snapshot', () => this.#backup('snapshot')],
      [3, 'reopen the store', () => this.#reopen()],
      [4, 'kill', () => this.#crash(false)],
      [4, 'power loss', () => this.#crash(true)],
      [2, 'another program moves the log', () => this.#foreign('PRAGMA wal_checkpoint(TRUNCATE)')],
      // From here on logs are kept for shipping alone.
      [6, 'end the chain', () => this.#endChain()],
      [3, 'step the clock back', () => this.#stepBack()],
    ]
    let at = this.#random.below(choices.reduce((sum, [weight]) => sum + weight, 0))
    for (const [weight, name, run] of choices) {
      if (at < weight) return [name, run]
      at -= weight
    }
    throw new Error('The weights do not add up.')
  }

  get #destination() {
    return this.#store.core.destination as BackupDestination
  }

  get #collector(): LogCollector {
    return new LogCollector(this.#destination.trackers, () => '', this.#store.clock, silentLog)
  }

  #commit(run: () => unknown): void {
    run()
    this.#last = Math.max(this.#last, this.#place.clock.now())
    this.#commits.push({ digest: digestOf(this.#cell), time: this.#last, until: this.#last })
  }

  #write(bytes: number): void {
    for (let i = this.#random.below(4); i >= 0; i--) {
      if (this.#random.chance(0.6)) this.#place.clock.advance(this.#random.below(4))
      this.#commit(() => this.#change(bytes))
    }
  }

  #change(bytes: number): void {
    const row = ++this.#rows % 7
    const size = 1 + this.#random.below(bytes)
    this.#cell.sql('INSERT OR REPLACE INTO t VALUES (?, ?)', [row, `${this.#rows} ${'x'.repeat(size)}`])
  }

  /** It begins in the millisecond of the commit before it, and is committed in a later one. */
  #slowTransaction(): void {
    this.#commit(() => this.#change(100))
    this.#commit(() =>
      this.#cell.transaction(() => {
        this.#change(3_000)
        this.#place.clock.advance(this.#random.below(3))
        this.#change(3_000)
      }),
    )
  }

  async #ship({ isAnswered = true } = {}): Promise<void> {
    const { logs } = await this.#collector.collect(ALL)
    await this.#keep(logs, isAnswered)
  }

  async #shipPart(): Promise<void> {
    const { logs } = await this.#collector.collect({ cellsMax: 1, bytesMax: 1 + this.#random.below(60_000) })
    await this.#keep(logs, this.#random.chance(0.8))
  }

  async #keep(
    logs: Awaited<ReturnType<LogCollector['collect']>>['logs'],
    isAnswered: boolean,
  ): Promise<void> {
    const [log] = logs.filter(({ cellId }) => cellId === this.#cell.id)
    if (log === undefined) return
    this.#shipped.store(log)
    this.counts.pieces += log.pieces.length
    if (isAnswered) this.#answered.store(log)
    else for (const { salts, to } of log.pieces) this.#unanswered.set(salts, to)
    const last = log.pieces.at(-1)
    if (!isAnswered || last === undefined) return
    const place: ShippedPlace = {
      cellId: this.#cell.id,
      history: log.history,
      sequence: last.sequence,
      frames: last.to,
    }
    this.#collector.shipped([place])
    this.#noteCovered()
  }

  #noteCovered(): void {
    const { history } = (this.#versions.at(-1) as Version).position
    const version = this.#versions.find(({ position }) => position.history === history) as Version
    this.#covered.set(history, this.#commitsIn(this.#shipped, version))
    this.#known.set(history, this.#commitsIn(this.#answered, version))
  }

  /** How many commits are shipped is what a restore without a limit has. */
  #commitsIn(shipped: ShippedLogs, { image, position }: Version): number {
    const digest = digestOfFile(shipped.restore(image, position))
    const newest = this.#commits.findLastIndex((commit) => commit.digest === digest)
    if (newest < 0) throw new Error('what was shipped is no state of the cell')
    return newest
  }

  async #backup(kind: 'incremental' | 'snapshot'): Promise<void> {
    let position: LogPosition | undefined
    const { cut } = ChangeTracker.prototype
    const id = this.#cell.id
    const model = this
    ChangeTracker.prototype.cut = function (this: ChangeTracker, ...args) {
      const log = cut.apply(this, args)
      model.#cuts++
      if (this.progress.cellId === id) position = log
      return log
    }
    try {
      await this.#store.backups[kind](this.#cell.id)
    } catch (error) {
      if (!isCellError(error, 'busy')) throw error
      return
    } finally {
      ChangeTracker.prototype.cut = cut
    }
    if (position === undefined) throw new Error('a version without a position')
    this.#storedAt = position.at + 1
    this.#last = Math.max(this.#last, this.#storedAt)
    const holds = this.#commits.length - 1
    if (!this.#versions.some((each) => each.position.history === position?.history)) this.counts.histories++
    this.#versions.push({ position, image: this.#image(), holds })
    for (const shipped of [this.#covered, this.#known])
      if (!shipped.has(position.history)) shipped.set(position.history, holds)
  }

  /** The database file as it is now, with its log applied. */
  #image(): string {
    const { database, wal } = this.#place.paths.cell(this.#cell.id)
    const file = path.join(this.#place.root, `image-${this.#versions.length}.db`)
    copy(database, file)
    if (fs.existsSync(wal)) copy(wal, `${file}-wal`)
    recover(file)
    return file
  }

  async #reopen(): Promise<void> {
    const { id } = this.#cell
    const other = this.#other.id
    await this.#store.close()
    await this.#open(id, other)
  }

  async #open(id: string, other: string): Promise<void> {
    this.#store = await this.#place.open({ ...SETTINGS, objectStore: this.#objects })
    this.#cell = this.#store.openCell(id)
    this.#other = this.#store.openCell(other)
  }

  /** What is in the files now goes on elsewhere. A power loss takes some of the log that was not fsynced. */
  async #crash(isPowerLoss: boolean, kept?: number, writes = this.#random.below(6)): Promise<void> {
    this.counts.crashes++
    const { id } = this.#cell
    const other = this.#other.id
    const { root, clock, paths } = this.#place
    const aside = tempDirectory('crashed')
    const inode = fs.statSync(paths.cell(id).database).ino
    copy(`${root}/.`, aside)
    await this.#store.close()
    // By its lock file, the data directory stays the same one. Otherwise it might have been put back.
    for (const file of filesBelow(root).map((each) => path.join(root, each)))
      if (file !== paths.lock) fs.rmSync(file)
    copy(`${aside}/.`, root)
    this.#replaceInode(inode, fs.statSync(paths.cell(id).database).ino)
    this.#place.directory.mayHaveLogs = true
    const { wal } = paths.cell(id)
    let isCut = false
    if (isPowerLoss && fs.existsSync(wal)) {
      const frames = Math.floor((fs.statSync(wal).size - 32) / (24 + 4096))
      // What was shipped and then lost would have to be known as shipped, or it stays until the log has as much again.
      const shipped = this.#unanswered.get(saltsOf(wal) ?? '') ?? 0
      const safe = Math.max(shipped, fsyncedFrames(wal, paths.cell(id).segments))
      const left = kept ?? safe + this.#random.below(frames - safe + 1)
      if (frames > 0) fs.truncateSync(wal, left === 0 ? 0 : walBytes(left, 4096))
      isCut = left > 0
    }
    clock.advance(1)
    const known = this.#known.get(this.#versions.at(-1)?.position.history ?? '') ?? 0
    const { time: shippedFrom = 0, until: shippedAt = 0 } = this.#commits[known] ?? {}
    await this.#open(id, other)
    const digest = digestOf(this.#cell)
    const found = this.#commits.findLastIndex((commit) => commit.digest === digest)
    if (found < 0) throw new Error('the cell has a state that it never had')
    this.#commits = this.#commits.slice(0, found + 1)
    // What was shipped of the last commit found is shipped once more, with the time of the last one that was shipped.
    const last = this.#commits[found] as Commit
    if (isCut && known > found) last.until = shippedAt
    const holds = this.#versions.at(-1)?.holds ?? 0
    if (found < holds) throw new Error('a version holds what the power loss took')
    for (const shipped of [this.#covered, this.#known])
      for (const [history, end] of shipped) shipped.set(history, Math.min(end, found))
    // The times of what was not shipped may be lost with the process: then they are as early as they can be.
    for (const [i, commit] of this.#commits.entries()) {
      if (i <= known) continue
      const earliest = i <= holds ? shippedFrom : Math.max(shippedFrom, this.#storedAt)
      commit.time = Math.min(commit.time, earliest)
    }
    this.#last = Math.max(this.#storedAt, shippedFrom, this.#line())
    // Before anything is collected the log may be longer again than it was.
    for (let i = writes; i > 0; i--) this.#commit(() => this.#change(6_000))
    await this.#ship()
    this.#last = Math.max(this.#last, this.#line())
  }

  /** No commit gets an earlier time: of the last tick or close, if that is later than what was shipped. */
  #line(): number {
    const { line } = this.#destination.trackers.use(this.#cell.id, (tracker) => tracker.progress)
    const newest = Math.max(this.#newest, this.#place.clock.now())
    // What follows a cut is a millisecond later, also while the clock is behind.
    if (line > newest + this.#cuts)
      throw new Error(`the cell goes on at ${line}, and no clock was past ${newest}`)
    return line
  }

  #stepBack(): void {
    const { clock } = this.#place
    this.#newest = Math.max(this.#newest, clock.now())
    clock.step(-this.#random.below(50))
  }

  /** In a crash the files stay; here they are copies. */
  #replaceInode(before: number, now: number): void {
    const state = new Database(this.#place.paths.localState)
    for (const column of ['chain', 'base', 'history'])
      state
        .prepare(`UPDATE backup_progress SET ${column} = replace(${column}, ?, ?)`)
        .run(`"inode":"${before}"`, `"inode":"${now}"`)
    state.close()
  }

  #endChain(): void {
    this.#destination.trackers.use(this.#cell.id, (tracker) => tracker.dropChain())
  }

  #noteHoles(): void {
    const { segments } = this.#place.paths.cell(this.#cell.id)
    for (const { path: file } of new Segments(segments).list()) {
      const frame = fs.readFileSync(file).subarray(32, 32 + 24)
      if (frame.equals(Buffer.alloc(24))) this.counts.holes++
    }
  }

  async #foreign(sql: string): Promise<void> {
    const program = await ForeignProgram.open(this.#place.paths.cell(this.#cell.id).database)
    await program.exec(sql)
    await program.close()
  }
}

function saltsOf(wal: string): string | undefined {
  return parseWalHeader(fs.readFileSync(wal))?.salts
}

/** Of a wal-index: how many frames were moved into the database (sqlite.org/walformat, section 2.2). */
const MOVED_AT = 96

/** What a segment has, and what was moved into the database, was on the disk before. */
function fsyncedFrames(wal: string, segments: string): number {
  const last = new Segments(segments).list().at(-1)
  const kept = last !== undefined && last.salts === saltsOf(wal) ? last.frames : 0
  return Math.max(kept, fs.readFileSync(wal.replace(/wal$/, 'shm')).readUInt32LE(MOVED_AT))
}

/** In another process: closing a file here would drop SQLite's locks on it (invariant 4). */
function copy(from: string, to: string): void {
  execFileSync('cp', ['-rp', from, to])
}

function some<T>(items: readonly T[], random: Random, count: number): T[] {
  return Array.from({ length: Math.min(count, items.length) }, () => random.pick(items))
}
