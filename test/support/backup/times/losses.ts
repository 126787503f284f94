import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { Random } from '../../random.ts'
import { filesBelow, tempDirectory } from '../../temp-directory.ts'
import type { StoreInTime } from './store-in-time.ts'
import type { TimeLine } from './time-line.ts'

const HOUR_MS = 3_600_000

/** What takes times, changes or everything from a store, and what has to be there after it. */
export class Losses {
  readonly counts = { losses: 0, crashes: 0 }
  readonly #at: StoreInTime
  readonly #random: Random
  /** Commits to a cell. */
  readonly #commit: (line: TimeLine) => void

  constructor(at: StoreInTime, random: Random, commit: (line: TimeLine) => void) {
    this.#at = at
    this.#random = random
    this.#commit = commit
  }

  /** What is in the files now goes on elsewhere. */
  async crash(): Promise<void> {
    this.counts.crashes++
    const { root, paths } = this.#at.place
    const since = this.#at.shippedAt
    const aside = copyOf(root)
    const inodes = () => this.#at.lines.map(({ cellId }) => inodeOf(paths.cell(cellId).database))
    const before = inodes()
    await this.#at.close()
    // By its lock file the next start knows the directory. Without that, it may be an image that was put back.
    const isKnown = this.counts.crashes % 2 === 0
    putBack(aside, root, isKnown ? paths.lock : undefined)
    this.#replaceInodes(before, inodes())
    this.#at.place.directory.mayHaveLogs = true
    this.#at.pass(1)
    await this.#at.open({ takeOver: !isKnown })
    for (const line of this.#at.lines) {
      const state = this.#at.stateOf(line)
      if (state !== line.last) throw new Error(`a crash has made ${line.last} ${state}`)
    }
    await this.#backUpWithoutHistory()
    for (const line of this.#at.lines)
      line.timesLost(Math.min(since, this.#at.latest - 2 * HOUR_MS), this.#at.latest)
  }

  /** @param except comes back with its next restore only */
  async all(except?: TimeLine): Promise<void> {
    this.counts.losses++
    await this.#backUpWithoutHistory()
    await this.#at.settle(this.#at.store.core.catalogStored())
    await this.#at.close()
    this.#at.place.loseData()
    this.#at.pass(1)
    await this.#at.openLost()
    for (const line of this.#at.lines) {
      line.cut(this.#at.latest)
      if (line === except) continue
      await this.#at.settle(this.#at.store.backups.ensureLocal(line.cellId))
      const state = this.#at.stateOf(line)
      if (state !== line.last)
        throw new Error(`a loss has made ${line.last} ${state}\n${line.told(this.#at.latest)}`)
    }
  }

  /** What was not shipped is lost; everything that was comes back. */
  async sudden(): Promise<void> {
    this.counts.losses++
    const unshipped = await this.#at.flush()
    await this.#at.settle(this.#at.store.core.catalogStored())
    const shipped = this.#at.lines.map(({ last }) => last)
    for (const line of this.#at.lines) if (this.#random.chance(0.5)) this.#commit(line)
    const aside = copyOf(this.#at.place.objects)
    await this.#at.close()
    this.#at.place.loseData()
    putBack(aside, this.#at.place.objects)
    this.#at.pass(1)
    await this.#at.openLost()
    for (const [i, line] of this.#at.lines.entries()) {
      await this.#at.settle(this.#at.store.backups.ensureLocal(line.cellId))
      const state = this.#at.stateOf(line)
      if (state !== shipped[i] && state !== line.last && !unshipped.includes(line.cellId))
        throw new Error(`a sudden loss has made ${shipped[i]} ${state}\n${line.told(this.#at.latest)}`)
      line.backTo(state)
      line.cut(this.#at.latest)
    }
  }

  /** Ships what can be shipped. The other cells get the version with which their history goes on: until then, nothing times their commits. */
  async #backUpWithoutHistory(): Promise<void> {
    for (const cellId of await this.#at.flush())
      await this.#at.backUp('incremental', this.#at.lines.find((line) => line.cellId === cellId) as TimeLine)
  }

  /** In a crash the files stay; here they are copies. */
  #replaceInodes(before: readonly string[], now: readonly string[]): void {
    const state = new Database(this.#at.place.paths.localState)
    for (const [i, { cellId }] of this.#at.lines.entries())
      for (const column of ['chain', 'base', 'history'])
        state
          .prepare(`UPDATE backup_progress SET ${column} = replace(${column}, ?, ?) WHERE cell_id = ?`)
          .run(`"inode":"${before[i]}"`, `"inode":"${now[i]}"`, cellId)
    state.close()
  }
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

/** @param kept a file that stays the same one, with what it has in the copy */
function putBack(aside: string, directory: string, kept?: string): void {
  for (const file of filesBelow(directory).map((each) => path.join(directory, each)))
    if (file !== kept) fs.rmSync(file)
  execFileSync('cp', ['-rpT', aside, directory])
}
