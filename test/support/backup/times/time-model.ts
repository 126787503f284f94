import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { vi } from 'vitest'
import { BackupSchedule } from '../../../../src/backup/schedule.ts'
import type { RestorableRange, RestoreResult } from '../../../../src/backup/versions/backup-types.ts'
import { CellError } from '../../../../src/errors.ts'
import type { Cell } from '../../../../src/store/cell.ts'
import type { CellStore } from '../../../../src/store/cell-store.ts'
import type { Random } from '../../random.ts'
import { tempDirectory } from '../../temp-directory.ts'
import { ForeignProgram } from '../foreign-program.ts'
import { ScratchPlace } from '../scratch-store.ts'
import { TimeLine } from './time-line.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const CELLS = 3
/** Real files are read and written in between. */
const TURNS_PER_TIMER = 50
const OPTIONS = {
  openCellsMax: 2,
  checkpointBytes: 60_000,
  takeOver: true,
  backups: { maxLagMs: 10 * SECOND_MS },
} as const

/**
 * Cells that count, while anything happens to them, to their store, and to the clock. What each was at each moment is known,
 * so that each restore to a time can be compared.
 */
export class TimeModel {
  readonly #place = new ScratchPlace()
  readonly #random: Random
  readonly #lines: TimeLine[] = []
  readonly steps: string[] = []
  readonly counts = {
    moments: 0,
    refused: 0,
    claimed: 0,
    undone: 0,
    branched: 0,
    losses: 0,
    crashes: 0,
    clockSteps: 0,
  }
  #store!: CellStore
  #token = 0
  /** The clock when everything was last shipped for certain: a stop ships only what it can before its deadline. */
  #shippedAt = 0
  /** The latest that the clock has been. */
  #latest = 0

  constructor(random: Random) {
    this.#random = random
  }

  async start(): Promise<void> {
    // It knows the cuts of the versions that its steps make, and of no others.
    vi.spyOn(BackupSchedule.prototype, 'start').mockReturnValue(undefined)
    this.#store = await this.#place.create(OPTIONS)
    for (let i = 0; i < CELLS; i++) {
      const cell = this.#store.createCell()
      cell.exec(
        'CREATE TABLE counter (n INTEGER); INSERT INTO counter VALUES (0); CREATE TABLE log (n INTEGER PRIMARY KEY, x)',
      )
      this.#lines.push(new TimeLine(cell.id))
      this.#commit(this.#lines[i] as TimeLine)
    }
    for (const line of this.#lines) await this.#backUp('incremental', line)
  }

  async step(): Promise<void> {
    const line = this.#random.pick(this.#lines)
    const choices: [number, string, () => void | Promise<void>][] = [
      [40, 'write', () => this.#write()],
      [12, 'time', () => this.#pass(this.#random.below(20 * MINUTE_MS))],
      [6, 'step the clock', () => this.#stepClock()],
      [4, 'step the clock in a transaction', () => this.#commit(line, () => this.#stepClock())],
      [10, 'incremental', () => this.#backUp('incremental', line)],
      [3, 'snapshot', () => this.#backUp('snapshot', line)],
      [10, 'flush', () => this.#flush()],
      [3, 'reopen', () => this.#reopen()],
      [3, 'crash', () => this.#crash()],
      [1, 'lose all', () => this.#loseAll()],
      [2, 'sudden loss', () => this.#loseSuddenly()],
      [3, 'restore', () => this.restoreOne()],
      [3, 'restore, go on and undo', () => this.#undo(line)],
      [2, 'another program moves the log', () => this.#foreign(line)],
    ]
    let at = this.#random.below(choices.reduce((sum, [weight]) => sum + weight, 0))
    for (const [weight, name, run] of choices) {
      if (at < weight) {
        this.steps.push(name)
        await run()
        return
      }
      at -= weight
    }
  }

  /** Restores a cell to a random time, in place or after a total loss, and compares. */
  async restoreOne(isLost = false): Promise<void> {
    const line = this.#random.pick(this.#lines)
    await this.#flush()
    if (isLost) await this.#loseAll(line)
    const ranges = await this.#claimed(line)
    const time = this.#someTime(line)
    await this.#restoreTo(line, time, ranges)
  }

  /** What is said to be restorable is: the ends of each range, and moments within. */
  async prove(): Promise<void> {
    await this.#flush()
    for (const line of this.#lines) {
      for (const { from, to } of await this.#claimed(line)) {
        const time = this.#random.pick([from, to, from + this.#random.below(to - from + 1)])
        // A restore begins a new history, and what was there stays.
        await this.#restoreTo(line, time, [{ from, to }])
      }
    }
  }

  async dispose(): Promise<void> {
    await this.#settle(this.#place.directory.close())
    vi.restoreAllMocks()
  }

  async #restoreTo(line: TimeLine, time: number, ranges: readonly RestorableRange[]): Promise<void> {
    this.steps.push(`restore ${this.#lines.indexOf(line)} to ${time}`)
    const isClaimed = ranges.some(({ from, to }) => from <= time && time <= to)
    this.counts.moments++
    const planned = () => this.#outcome(this.#store.backups.plan(line.cellId, { timestamp: time }))
    const plan = await planned()
    if (isClaimed && this.#random.chance(0.5)) await this.#branch(line, time)
    const outcome = await this.#restore(line, time)
    const about = `${JSON.stringify(ranges)}\n${line.told(time)}`
    if (outcome instanceof CellError) {
      if (isClaimed)
        throw new Error(`${time} is said to be restorable, and refused: ${about}`, { cause: outcome })
      // The collection of expired entries may have changed the cell in between: then a plan is refused now.
      if (!(plan instanceof CellError) && !((await planned()) instanceof CellError))
        throw new Error('a plan for what is refused', { cause: outcome })
      this.counts.refused++
      await this.#takeOffer(line, time, outcome)
      return
    }
    if (isClaimed) this.counts.claimed++
    else if (time <= (ranges[0]?.to ?? 0)) throw new Error(`${time} is not said to be restorable: ${about}`)
    if (plan instanceof CellError || plan.timestamp !== outcome.timestamp || plan.version !== outcome.version)
      throw new Error(`planned ${JSON.stringify(plan)}, and restored ${JSON.stringify(outcome)}`)
  }

  /** A new cell gets the same state, and goes again. */
  async #branch(line: TimeLine, timestamp: number): Promise<void> {
    const from = { cellId: line.cellId, timestamp }
    const made = await this.#settle(this.#store.createCell({ from }))
    const state = stateOf(made)
    if (!line.had(state, timestamp))
      throw new Error(`a new cell from ${timestamp}: ${state}\n${line.told(timestamp)}`)
    this.#store.deleteCell(made.id)
    this.counts.branched++
  }

  /** A refusal names the moment before the gap, and that can be restored. */
  async #takeOffer(line: TimeLine, time: number, error: CellError): Promise<void> {
    if (!['backup_not_found', 'backup_corrupt'].includes(error.code)) throw error
    const { restorableTo } = error.details
    if (restorableTo === undefined) {
      if (!/The first moment that can be restored is/.test(error.message)) throw error
      return
    }
    if (restorableTo >= time) throw new Error('the moment before it is after it', { cause: error })
    const outcome = await this.#restore(line, restorableTo)
    if (outcome instanceof CellError) throw outcome
  }

  async #restore(line: TimeLine, timestamp: number): Promise<RestoreResult | CellError> {
    const since = this.#place.clock.now()
    const outcome = await this.#outcome(this.#store.backups.restore(line.cellId, { timestamp }))
    for (const each of this.#lines) each.looked(this.#latest)
    if (outcome instanceof CellError) return outcome
    const state = this.#stateOf(line)
    if (!line.had(state, timestamp))
      throw new Error(
        `restored to ${timestamp} (${JSON.stringify(outcome)}): ${state}\n${line.told(timestamp)}`,
      )
    line.became(state, this.#latest, since)
    return outcome
  }

  /** Whatever happened since a restore, the replaced state comes back exactly. */
  async #undo(line: TimeLine): Promise<void> {
    await this.#flush()
    const before = line.last
    const [range] = await this.#claimed(line)
    if (range === undefined) return
    const outcome = await this.#restore(line, this.#random.pick([range.from, range.to]))
    if (outcome instanceof CellError) throw outcome
    if (outcome.replacedAt === null) return
    if (this.#random.chance(0.5)) this.#stepClock()
    for (let i = this.#random.below(3); i > 0; i--) this.#commit(line)
    if (this.#random.chance(0.5)) await this.#backUp('incremental', line)
    this.#commit(line)
    await this.#flush()
    const undone = await this.#restore(line, outcome.replacedAt)
    if (undone instanceof CellError || line.last !== before)
      throw new Error(
        `${outcome.replacedAt} brings back ${line.last}, not ${before}\n${line.told(outcome.replacedAt)}`,
        {
          cause: undone,
        },
      )
    this.counts.undone++
  }

  async #claimed({ cellId }: TimeLine): Promise<RestorableRange[]> {
    const ranges: RestorableRange[] = []
    let cursor: string | undefined
    do {
      const page = await this.#settle(Promise.resolve(this.#store.backups.list(cellId, { cursor })))
      ranges.push(...page.restorable)
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    return ranges
  }

  #someTime(line: TimeLine): number {
    const [from, to] = line.span
    if (this.#random.chance(0.5)) return from + this.#random.below(to - from + 1)
    return this.#random.pick(line.moments) + this.#random.below(3) - 1
  }

  #write(): void {
    for (let i = this.#random.below(8); i >= 0; i--) {
      this.#commit(this.#random.pick(this.#lines))
      if (this.#random.chance(0.6)) this.#pass(this.#random.pick([1, 2, 5, 700, 30_000]))
    }
  }

  #commit(line: TimeLine, during: () => void = () => {}): void {
    const cell = this.#store.openCell(line.cellId)
    const token = ++this.#token
    cell.transaction(() => {
      cell.sql('UPDATE counter SET n = ?', [token])
      during()
      cell.sql('INSERT INTO log VALUES (?, ?)', [token, 'x'.repeat(this.#random.below(6_000))])
      cell.sql('DELETE FROM log WHERE n <= ?', [token - 30])
    })
    const now = this.#now()
    line.became(stateOf(cell), now)
  }

  #now(): number {
    const now = this.#place.clock.now()
    this.#latest = Math.max(this.#latest, now)
    return now
  }

  #pass(ms: number): void {
    this.#place.clock.advance(ms)
    this.#now()
  }

  #stepClock(): void {
    this.counts.clockSteps++
    // A cell may have looked at the clock since its last commit, when it was opened, for example.
    for (const line of this.#lines) line.looked(this.#now())
    const back = this.#random.chance(0.6)
    this.#place.clock.step(
      (back ? -1 : 1) * this.#random.pick([3, 500, MINUTE_MS, this.#random.below(HOUR_MS)]),
    )
    this.#now()
  }

  async #backUp(kind: 'incremental' | 'snapshot', line: TimeLine): Promise<void> {
    const outcome = await this.#outcome(this.#store.backups[kind](line.cellId))
    line.cut(this.#latest)
    if (outcome instanceof CellError && outcome.code !== 'busy') throw outcome
  }

  /** @returns the cells that their next version begins to ship */
  async #flush(): Promise<readonly string[]> {
    const { withoutHistory } = await this.#settle(this.#store.backups.flush())
    this.#shippedAt = this.#latest
    return withoutHistory
  }

  async #reopen(): Promise<void> {
    await this.#settle(this.#store.close())
    await this.#open()
  }

  async #open(): Promise<void> {
    this.#store = await this.#settle(this.#place.open(OPTIONS))
  }

  /** What is in the files now goes on elsewhere. */
  async #crash(): Promise<void> {
    this.counts.crashes++
    const { root, paths } = this.#place
    const since = this.#shippedAt
    const aside = copyOf(root)
    const inodes = () => this.#lines.map(({ cellId }) => inodeOf(paths.cell(cellId).database))
    const before = inodes()
    await this.#settle(this.#store.close())
    putBack(aside, root)
    this.#replaceInodes(before, inodes())
    this.#place.directory.mayHaveLogs = true
    this.#pass(1)
    await this.#open()
    for (const line of this.#lines) {
      const state = this.#stateOf(line)
      if (state !== line.last) throw new Error(`a crash has made ${line.last} ${state}`)
    }
    await this.#flush()
    for (const line of this.#lines) line.timesLost(Math.min(since, this.#latest - 2 * HOUR_MS), this.#latest)
  }

  /** In a crash the files stay; here they are copies. */
  #replaceInodes(before: readonly string[], now: readonly string[]): void {
    const state = new Database(this.#place.paths.localState)
    for (const [i, { cellId }] of this.#lines.entries())
      for (const column of ['chain', 'base', 'history'])
        state
          .prepare(`UPDATE backup_progress SET ${column} = replace(${column}, ?, ?) WHERE cell_id = ?`)
          .run(`"inode":"${before[i]}"`, `"inode":"${now[i]}"`, cellId)
    state.close()
  }

  /** @param except comes back with its next restore only */
  async #loseAll(except?: TimeLine): Promise<void> {
    this.counts.losses++
    for (const cellId of await this.#flush())
      await this.#backUp('incremental', this.#lines.find((line) => line.cellId === cellId) as TimeLine)
    await this.#settle(this.#store.core.catalogStored())
    await this.#settle(this.#store.close())
    this.#place.loseData()
    this.#pass(1)
    this.#store = await this.#settle(this.#place.openOrCreate(OPTIONS))
    for (const line of this.#lines) {
      if (line === except) continue
      await this.#settle(this.#store.backups.ensureLocal(line.cellId))
      const state = this.#stateOf(line)
      if (state !== line.last)
        throw new Error(`a loss has made ${line.last} ${state}\n${line.told(this.#latest)}`)
    }
  }

  /** What was not shipped is lost; everything that was comes back. */
  async #loseSuddenly(): Promise<void> {
    this.counts.losses++
    const unshipped = await this.#flush()
    await this.#settle(this.#store.core.catalogStored())
    const shipped = this.#lines.map(({ last }) => last)
    for (const line of this.#lines) if (this.#random.chance(0.5)) this.#commit(line)
    const aside = copyOf(this.#place.objects)
    await this.#settle(this.#store.close())
    this.#place.loseData()
    putBack(aside, this.#place.objects)
    this.#pass(1)
    this.#store = await this.#settle(this.#place.openOrCreate(OPTIONS))
    for (const [i, line] of this.#lines.entries()) {
      await this.#settle(this.#store.backups.ensureLocal(line.cellId))
      const state = this.#stateOf(line)
      if (state !== shipped[i] && state !== line.last && !unshipped.includes(line.cellId))
        throw new Error(`a sudden loss has made ${shipped[i]} ${state}\n${line.told(this.#latest)}`)
      line.backTo(state)
    }
  }

  async #foreign({ cellId }: TimeLine): Promise<void> {
    const program = await ForeignProgram.open(this.#place.paths.cell(cellId).database)
    await program.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    await program.close()
  }

  #stateOf({ cellId }: TimeLine): string {
    return stateOf(this.#store.openCell(cellId))
  }

  async #settle<T>(work: Promise<T>): Promise<T> {
    try {
      return await this.#advanceUntil(work)
    } finally {
      const latest = this.#now()
      for (const line of this.#lines) line.looked(Math.max(latest, this.#latest))
    }
  }

  /** Time passes slowly enough that little of it is between two commits. */
  async #advanceUntil<T>(work: Promise<T>): Promise<T> {
    let settled = false
    const mark = () => {
      settled = true
    }
    work.then(mark, mark)
    for (let turn = 1; !settled; turn++) {
      await turnOfTheLoop()
      const { nextTimerMs } = this.#place.clock
      if (!settled && turn % TURNS_PER_TIMER === 0 && nextTimerMs !== undefined && nextTimerMs <= HOUR_MS)
        this.#place.clock.advance(nextTimerMs)
    }
    return work
  }

  async #outcome<T>(work: Promise<T>): Promise<T | CellError> {
    try {
      return await this.#settle(work)
    } catch (error) {
      if (error instanceof CellError) return error
      throw error
    }
  }
}

/** The counter and every row: a state that is never the same twice. */
function stateOf(cell: Cell): string {
  const [row] = cell.sql<{ n: number; rows: string | null }>(
    "SELECT n, (SELECT group_concat(n || ':' || length(x)) FROM (SELECT n, x FROM log ORDER BY n DESC)) AS rows FROM counter",
  ).rows
  if (row === undefined || !row.rows?.startsWith(`${row.n}:`))
    throw new Error(`half a transaction: ${row?.n} ${row?.rows}`)
  return `${row.n} ${row.rows}`
}

function inodeOf(file: string): string {
  return String(fs.statSync(file, { bigint: true }).ino)
}

/** By another process: closing a file here would drop SQLite's locks on it (invariant 4). */
function copyOf(directory: string): string {
  const aside = path.join(tempDirectory('aside'), 'copy')
  execFileSync('cp', ['-rp', directory, aside])
  return aside
}

function putBack(aside: string, directory: string): void {
  fs.rmSync(directory, { recursive: true, force: true })
  execFileSync('cp', ['-rp', aside, directory])
}
