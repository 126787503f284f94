import { vi } from 'vitest'
import { BackupSchedule } from '../../../../src/backup/schedule/schedule.ts'
import type { RestorableRange, RestoreResult } from '../../../../src/backup/versions/backup-types.ts'
import { CellError } from '../../../../src/errors.ts'
import type { Random } from '../../random.ts'
import { ForeignProgram } from '../foreign-program.ts'
import { Losses } from './losses.ts'
import { StoreInTime, stateOf } from './store-in-time.ts'
import { TimeLine } from './time-line.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const CELLS = 3

/**
 * Cells that count, while anything happens to them, to their store, and to the clock. What each was at each moment is known,
 * so that each restore to a time can be compared.
 */
export class TimeModel {
  readonly #at = new StoreInTime()
  readonly #losses: Losses
  readonly #random: Random
  readonly steps: string[] = []
  readonly #counts = { moments: 0, refused: 0, claimed: 0, undone: 0, branched: 0, clockSteps: 0 }
  #token = 0

  constructor(random: Random) {
    this.#random = random
    this.#losses = new Losses(this.#at, random, (line) => this.#commit(line))
  }

  get counts(): Record<string, number> {
    return { ...this.#counts, ...this.#losses.counts }
  }

  async start(): Promise<void> {
    // It knows the cuts of the versions that its steps make, and of no others.
    vi.spyOn(BackupSchedule.prototype, 'start').mockReturnValue(undefined)
    await this.#at.create()
    for (let i = 0; i < CELLS; i++) {
      const cell = this.#at.store.createCell()
      cell.exec(
        'CREATE TABLE counter (n INTEGER); INSERT INTO counter VALUES (0); CREATE TABLE log (n INTEGER PRIMARY KEY, x)',
      )
      this.#at.lines.push(new TimeLine(cell.id))
      this.#commit(this.#at.lines[i] as TimeLine)
    }
    for (const line of this.#at.lines) await this.#at.backUp('incremental', line)
  }

  async step(): Promise<void> {
    const line = this.#random.pick(this.#at.lines)
    const choices: [number, string, () => void | Promise<void>][] = [
      [40, 'write', () => this.#write()],
      [12, 'time', () => this.#at.pass(this.#random.below(20 * MINUTE_MS))],
      [6, 'step the clock', () => this.#stepClock()],
      [4, 'step the clock in a transaction', () => this.#commit(line, () => this.#stepClock())],
      [10, 'incremental', () => this.#at.backUp('incremental', line)],
      [3, 'snapshot', () => this.#at.backUp('snapshot', line)],
      [10, 'flush', () => this.#at.flush()],
      [3, 'reopen', () => this.#at.reopen()],
      [3, 'crash', () => this.#losses.crash()],
      [1, 'lose all', () => this.#losses.all()],
      [2, 'sudden loss', () => this.#losses.sudden()],
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
    const line = this.#random.pick(this.#at.lines)
    await this.#at.flush()
    if (isLost) await this.#losses.all(line)
    const ranges = await this.#claimed(line)
    const time = this.#someTime(line)
    await this.#restoreTo(line, time, ranges)
  }

  /** What is said to be restorable is: the ends of each range, and moments within. */
  async prove(): Promise<void> {
    await this.#at.flush()
    for (const line of this.#at.lines) {
      for (const { from, to } of await this.#claimed(line)) {
        const time = this.#random.pick([from, to, from + this.#random.below(to - from + 1)])
        // A restore begins a new history, and what was there stays.
        await this.#restoreTo(line, time, [{ from, to }])
      }
    }
  }

  async dispose(): Promise<void> {
    await this.#at.dispose()
    vi.restoreAllMocks()
  }

  async #restoreTo(line: TimeLine, time: number, ranges: readonly RestorableRange[]): Promise<void> {
    this.steps.push(`restore ${this.#at.lines.indexOf(line)} to ${time}`)
    const isClaimed = ranges.some(({ from, to }) => from <= time && time <= to)
    this.#counts.moments++
    const planned = () => this.#at.outcome(this.#at.store.backups.plan(line.cellId, { timestamp: time }))
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
      this.#counts.refused++
      await this.#takeOffer(line, time, outcome)
      return
    }
    if (isClaimed) this.#counts.claimed++
    else if (time <= (ranges[0]?.to ?? 0)) throw new Error(`${time} is not said to be restorable: ${about}`)
    if (plan instanceof CellError || plan.timestamp !== outcome.timestamp || plan.version !== outcome.version)
      throw new Error(`planned ${JSON.stringify(plan)}, and restored ${JSON.stringify(outcome)}`)
  }

  /** A new cell gets the same state, and goes again. */
  async #branch(line: TimeLine, timestamp: number): Promise<void> {
    const from = { cellId: line.cellId, timestamp }
    const made = await this.#at.settle(this.#at.store.createCell({ from }))
    const state = stateOf(made)
    if (!line.had(state, timestamp))
      throw new Error(`a new cell from ${timestamp}: ${state}\n${line.told(timestamp)}`)
    this.#at.store.deleteCell(made.id)
    this.#counts.branched++
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
    const since = this.#at.place.clock.now()
    const outcome = await this.#at.outcome(this.#at.store.backups.restore(line.cellId, { timestamp }))
    for (const each of this.#at.lines) each.looked(this.#at.latest)
    if (outcome instanceof CellError) return outcome
    const state = this.#at.stateOf(line)
    if (!line.had(state, timestamp))
      throw new Error(
        `restored to ${timestamp} (${JSON.stringify(outcome)}): ${state}\n${line.told(timestamp)}`,
      )
    // What is replaced can be brought back: so what replaces it is later.
    line.cut(this.#at.latest)
    line.became(state, this.#at.latest, since)
    return outcome
  }

  /** Whatever happened since a restore, the replaced state comes back exactly. */
  async #undo(line: TimeLine): Promise<void> {
    await this.#at.flush()
    const before = line.last
    const [range] = await this.#claimed(line)
    if (range === undefined) return
    const outcome = await this.#restore(line, this.#random.pick([range.from, range.to]))
    if (outcome instanceof CellError) throw outcome
    if (outcome.replacedAt === null) return
    if (this.#random.chance(0.5)) this.#stepClock()
    for (let i = this.#random.below(3); i > 0; i--) this.#commit(line)
    if (this.#random.chance(0.5)) await this.#at.backUp('incremental', line)
    this.#commit(line)
    await this.#at.flush()
    const undone = await this.#restore(line, outcome.replacedAt)
    if (undone instanceof CellError || line.last !== before)
      throw new Error(
        `${outcome.replacedAt} brings back ${line.last}, not ${before}\n${line.told(outcome.replacedAt)}`,
        {
          cause: undone,
        },
      )
    this.#counts.undone++
  }

  async #claimed({ cellId }: TimeLine): Promise<RestorableRange[]> {
    const ranges: RestorableRange[] = []
    let cursor: string | undefined
    do {
      const page = await this.#at.settle(Promise.resolve(this.#at.store.backups.list(cellId, { cursor })))
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
      this.#commit(this.#random.pick(this.#at.lines))
      if (this.#random.chance(0.6)) this.#at.pass(this.#random.pick([1, 2, 5, 700, 30_000]))
    }
  }

  #commit(line: TimeLine, during: () => void = () => {}): void {
    const cell = this.#at.store.openCell(line.cellId)
    const token = ++this.#token
    cell.transaction(() => {
      cell.sql('UPDATE counter SET n = ?', [token])
      during()
      cell.sql('INSERT INTO log VALUES (?, ?)', [token, 'x'.repeat(this.#random.below(6_000))])
      cell.sql('DELETE FROM log WHERE n <= ?', [token - 30])
    })
    const now = this.#at.now()
    line.became(stateOf(cell), now)
  }

  #stepClock(): void {
    this.#counts.clockSteps++
    const sign = this.#random.chance(0.6) ? -1 : 1
    this.#at.stepClock(sign * this.#random.pick([3, 500, MINUTE_MS, this.#random.below(HOUR_MS)]))
  }

  /** It takes a while: no commit that it hides is of the millisecond in which the one before it was shipped. */
  async #foreign({ cellId }: TimeLine): Promise<void> {
    this.#at.pass(1)
    const program = await ForeignProgram.open(this.#at.place.paths.cell(cellId).database)
    await program.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    await program.close()
  }
}
