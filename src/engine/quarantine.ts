import fs from 'node:fs'
import { type Clock, setImmediate, type Timer, turnOfTheLoop } from '../base/clock.ts'
import { exists, fsyncReplaced, replaceFile } from '../base/files/durable-files.ts'
import type { CellPaths } from '../base/files/store-paths.ts'
import type { Log } from '../base/log.ts'
import { bootId } from '../base/machine/machine.ts'
import { CellError, isCellError, type QuarantineReason } from '../errors.ts'
import type { ClosedCell } from './files/quarantine-check.ts'
import { isDamage, isSqliteError } from './sqlite-errors.ts'
import type { AcknowledgedFrames } from './wal/commit-sync.ts'

/** Why a cell is kept closed, and since when. */
export interface QuarantineState {
  /**
   * `io_error`: the disk failed, and the cell is checked again automatically, or at the next start if its commits could not be
   * brought back at this one. `damaged`: only a restore repairs it.
   */
  reason: QuarantineReason
  /** Epoch milliseconds. */
  since: number
}

export interface QuarantineParts {
  clock: Clock
  log: Log
  paths(id: string): CellPaths
  /** Closes the cell without a write. @returns what its log must hold, if known */
  discard(id: string): AcknowledgedFrames | undefined
  /** See `checkClosedCell`. */
  check(cell: ClosedCell): Promise<void>
}

/** How many frames the log of the cell must have. */
interface NeededFrames {
  frames?: number | undefined
  /** The run of the machine after which it may have fewer; null if the system does not name it; undefined: it never may. */
  boot?: string | null | undefined
}

interface Entry extends QuarantineState, NeededFrames {
  /** The time until the next check; infinite if there will be none. */
  waitMs: number
  /** When that check is due, on the monotonic clock. */
  dueAt: number
  timer?: Timer | undefined
  checking: boolean
  /** Counts up when another part uses the cell's files: a check that began before counts for nothing. */
  turn: number
}

const WAIT_MS = 1_000
const WAIT_MS_MAX = 300_000
const NEVER = Number.POSITIVE_INFINITY

/**
 * The cells that are kept closed because their disk has failed or their files are damaged: after a disk error, memory and
 * disk may differ. Such a cell is closed without a checkpoint.
 *
 *     serving ──disk error──▶ io_error ──check passes──▶ serving
 *        │                     │   ▲
 *        │                     │   └─ check can't be made: a longer wait, then the next check
 *        └──damage found──▶ damaged ◀──check finds damage
 *                              └──restore or delete──▶ serving, or gone
 *
 * A check runs after the wait, or when the cell is asked for once it is due. A file next to the cell tells the next process,
 * which checks the cell before it opens it. That file needs no fsync: a power loss also takes the memory that differed. For a
 * `relaxed` cell it may take commits too, so the check asks for them only in the same run of the machine.
 */
export class Quarantine {
  readonly #parts: QuarantineParts
  readonly #entries = new Map<string, Entry>()
  /** Cells that have passed a check: one that fails again soon waits longer than before. */
  readonly #passed = new Map<string, { at: number; waitMs: number }>()
  #stopped = false

  constructor(parts: QuarantineParts) {
    this.#parts = parts
  }

  /** @param error the first sign, a `cell_quarantined` */
  begin(id: string, error: CellError): void {
    if (this.#entries.has(id)) return
    const { clock } = this.#parts
    const passed = this.#passed.get(id)
    const isSoon = passed !== undefined && clock.monotonic() - passed.at < WAIT_MS_MAX
    const reason = error.details.reason ?? 'damaged'
    const waitMs = reason === 'damaged' ? NEVER : isSoon ? longer(passed.waitMs) : WAIT_MS
    const entry = this.#enter(id, { reason, since: clock.now() }, waitMs)
    this.#save(id, entry)
    // Later: the error may have occurred in the middle of a transaction.
    setImmediate(() => this.#discard(id, entry))
  }

  /** Why a cell is kept closed; undefined if it is not. */
  state(id: string): QuarantineState | undefined {
    const known = this.#entries.get(id) ?? this.#remembered(id)
    return known && { reason: known.reason, since: known.since }
  }

  /** @throws `cell_quarantined` while the cell is kept closed; starts the check if it is due */
  assertFree(id: string): void {
    let entry = this.#entries.get(id)
    if (entry === undefined) {
      const remembered = this.#remembered(id)
      if (remembered === undefined) return
      // A damaged cell is checked again too: somebody may have repaired it since.
      entry = this.#enter(id, remembered, remembered.isUntilStart === true ? NEVER : 0)
    }
    const leftMs = entry.dueAt - this.#parts.clock.monotonic()
    if (leftMs <= 0) void this.#check(id, entry)
    throw refusal(entry, leftMs)
  }

  /** Another part uses the cell's files now: a running check counts for nothing. */
  interrupt(id: string): void {
    const entry = this.#entries.get(id)
    if (entry === undefined) return
    entry.turn++
    this.#wait(id, entry)
  }

  /** The cell's files were replaced or removed. */
  end(id: string): void {
    this.#remove(id)
    endUntilStart(this.#parts.paths(id))
    this.#passed.delete(id)
  }

  /** No check begins afterwards. */
  stop(): void {
    this.#stopped = true
    for (const entry of this.#entries.values()) {
      entry.turn++
      entry.timer?.cancel()
    }
  }

  #enter(id: string, state: RememberedQuarantine, waitMs: number): Entry {
    const entry: Entry = { ...state, dueAt: 0, waitMs, checking: false, turn: 0 }
    this.#entries.set(id, entry)
    this.#wait(id, entry)
    return entry
  }

  #wait(id: string, entry: Entry): void {
    const { clock } = this.#parts
    entry.timer?.cancel()
    entry.dueAt = clock.monotonic() + entry.waitMs
    if (entry.waitMs === NEVER || this.#stopped) return
    entry.timer = clock.setTimer(() => void this.#check(id, entry), entry.waitMs)
  }

  #discard(id: string, entry: Entry): void {
    const acknowledged = this.#parts.discard(id)
    if (acknowledged === undefined || this.#entries.get(id) !== entry) return
    entry.frames = acknowledged.frames
    entry.boot = acknowledged.isVolatile ? (bootId() ?? null) : undefined
    this.#save(id, entry)
  }

  async #check(id: string, entry: Entry): Promise<void> {
    if (entry.checking || this.#stopped) return
    entry.checking = true
    const { turn } = entry
    const isCurrent = () => this.#entries.get(id) === entry && entry.turn === turn
    try {
      await turnOfTheLoop()
      if (!isCurrent()) return
      this.#discard(id, entry)
      await this.#parts.check({ paths: this.#parts.paths(id), frames: entry.frames, isCurrent })
      if (isCurrent()) this.#pass(id, entry)
    } catch (error) {
      if (isCurrent()) this.#fail(id, entry, error)
    } finally {
      entry.checking = false
    }
  }

  #pass(id: string, { waitMs }: Entry): void {
    this.#remove(id)
    this.#passed.set(id, { at: this.#parts.clock.monotonic(), waitMs })
    this.#parts.log.warn(
      { cellId: id },
      'the disk had failed under a cell; the cell is proven whole and serves again',
    )
  }

  #fail(id: string, entry: Entry, err: unknown): void {
    if (isDamageFound(err)) {
      entry.reason = 'damaged'
      entry.waitMs = NEVER
      this.#save(id, entry)
      this.#parts.log.error(
        { cellId: id, err },
        'the check of a quarantined cell has found damage: restore it from a backup',
      )
    } else {
      entry.waitMs = longer(entry.waitMs)
      this.#parts.log.error(
        { cellId: id, err, waitMs: entry.waitMs },
        'a quarantined cell could not be checked; it stays closed',
      )
    }
    this.#wait(id, entry)
  }

  #remove(id: string): void {
    this.#entries.get(id)?.timer?.cancel()
    this.#entries.delete(id)
    fs.rmSync(this.#parts.paths(id).quarantine, { force: true })
  }

  /** Never throws: if the disk refuses the file, the next process does not know of the quarantine. */
  #save(id: string, { reason, since, frames, boot }: Entry): void {
    try {
      write(this.#parts.paths(id).quarantine, { reason, since, frames, boot })
    } catch (err) {
      this.#parts.log.warn({ cellId: id, err }, 'the quarantine of a cell could not be written to its file')
    }
  }

  #remembered(id: string): RememberedQuarantine | undefined {
    return readQuarantine(this.#parts.paths(id), this.#parts.clock)
  }
}

interface RememberedQuarantine extends QuarantineState, NeededFrames {
  /** No check can end it: see {@link quarantineUntilStart}. */
  isUntilStart?: boolean
}

function write(file: string, state: RememberedQuarantine): void {
  replaceFile(file, JSON.stringify(state))
}

function writeDurably(file: string, state: RememberedQuarantine): void {
  write(file, state)
  fsyncReplaced(file)
}

/**
 * Quarantines a cell before any process has it open. Durable, because a power loss doesn't take what is wrong with the cell.
 *
 * @param frames that its WAL must have
 */
export function quarantineDamaged(paths: CellPaths, frames: number, since: number): void {
  writeDurably(paths.quarantine, { reason: 'damaged', since, frames })
}

/**
 * Quarantines an unreadable cell with commits in the commit log before any process has it open. Without them it must not
 * serve, also if it can be read again: only the next start brings them back. Nothing is written to the cell's folder. Durable,
 * because the commit log may be removed after it.
 */
export function quarantineUntilStart(paths: CellPaths, since: number): void {
  writeDurably(paths.notRedone, { reason: 'io_error', since, isUntilStart: true })
}

/** The commits are where they belong: ends {@link quarantineUntilStart}, and nothing else. */
export function endUntilStart(paths: CellPaths): void {
  fs.rmSync(paths.notRedone, { force: true })
}

/** What the files of a cell say of its quarantine, whichever process has the cell. */
export function readQuarantine(paths: CellPaths, clock: Clock): RememberedQuarantine | undefined {
  return readState(paths.notRedone, clock) ?? readState(paths.quarantine, clock)
}

function readState(file: string, clock: Clock): RememberedQuarantine | undefined {
  if (!exists(file)) return undefined
  try {
    const state: RememberedQuarantine = JSON.parse(fs.readFileSync(file, 'utf8'))
    return isPast(state.boot) ? { ...state, frames: undefined } : state
  } catch {
    return { reason: 'io_error', since: clock.now() }
  }
}

/** True if the machine has started again since, perhaps after a power loss. */
function isPast(boot: string | null | undefined): boolean {
  return boot !== undefined && boot !== bootId()
}

function longer(waitMs: number): number {
  return Math.min(Math.max(2 * waitMs, WAIT_MS), WAIT_MS_MAX)
}

function isDamageFound(error: unknown): boolean {
  if (isCellError(error, 'cell_quarantined')) return error.details.reason === 'damaged'
  return isSqliteError(error) && isDamage(error.code) && !error.code.startsWith('SQLITE_IOERR')
}

function refusal({ reason, waitMs }: Entry, leftMs: number): CellError {
  if (waitMs === NEVER && reason === 'io_error') {
    return new CellError(
      'cell_quarantined',
      "The disk failed under the cell, and its last commits could not be brought back. The cell stays closed until the node's next start.",
      { reason },
    )
  }
  if (waitMs === NEVER) {
    return new CellError('cell_quarantined', "The cell's file is damaged. Restore the cell from a backup.", {
      reason,
    })
  }
  return new CellError(
    'cell_quarantined',
    'The disk failed under the cell. The cell stays closed until it is proven whole. Try again.',
    { reason, retryAfterMs: Math.max(leftMs, WAIT_MS) },
  )
}
