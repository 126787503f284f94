import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { LogPiece, LogPosition, UnshippedLog } from '../../../src/backup/changes/log/cell-log.ts'
import { walBytes } from '../../../src/engine/wal/wal-file.ts'
import { tempDirectory } from '../temp-directory.ts'

/** One log of a history, joined from its pieces. */
interface JoinedLog {
  bytes: Buffer
  pageSize: number
  commits: [frames: number, time: number][]
}

/** What was shipped of a cell, as an object store has it: in the order in which it came. */
export class ShippedLogs {
  readonly #shipped: { history: string; piece: LogPiece; bytes: Buffer }[] = []

  /** Reads the pieces from their files, as a shipper does. */
  store({ history, pieces }: UnshippedLog): void {
    for (const piece of pieces) {
      const { path: file, from, to, pageSize } = piece
      const begin = from === 0 ? 0 : walBytes(from, pageSize)
      const bytes = Buffer.alloc(walBytes(to, pageSize) - begin)
      const fd = fs.openSync(file, 'r')
      const read = fs.readSync(fd, bytes, 0, bytes.length, begin)
      fs.closeSync(fd)
      if (read < bytes.length) throw new Error(`${file} is shorter than its piece`)
      this.#shipped.push({ history, piece, bytes })
    }
  }

  /** What is there of a history, for a report. */
  told({ history }: LogPosition): string {
    return this.#shipped
      .filter((each) => each.history === history)
      .map(({ piece: { sequence, from, to, commits } }) => {
        const times = commits.map(([frames, time]) => `${frames}@${time % 100_000}`)
        return `${sequence}: ${from}-${to} ${times.join(' ')}`
      })
      .join('\n')
  }

  /**
   * The logs of a history after a position, joined: a later piece replaces what earlier ones have from its first frame on, and
   * all logs after its own. What a node has shipped without an answer the next one ships again, perhaps in smaller parts.
   */
  #logs({ history, sequence }: LogPosition): Map<number, JoinedLog> {
    const logs = new Map<number, JoinedLog>()
    for (const { piece, bytes, ...of } of this.#shipped) {
      if (of.history !== history || piece.sequence <= sequence) continue
      const log = logs.get(piece.sequence) ?? {
        bytes: Buffer.alloc(0),
        pageSize: piece.pageSize,
        commits: [],
      }
      const head = piece.from === 0 ? 0 : walBytes(piece.from, piece.pageSize)
      if (log.bytes.length < head)
        throw new Error(`a gap before frame ${piece.from} of log ${piece.sequence}`)
      const commits = [...upTo(log.commits, piece.from), ...piece.commits]
      if (commits.at(-1)?.[0] !== piece.to) throw new Error('the last commit of a piece is not its end')
      if (commits.some(([frames, time], i) => i > 0 && grows(commits[i - 1], frames, time)))
        throw new Error(`the times of log ${piece.sequence} do not grow: ${JSON.stringify(commits)}`)
      log.commits = commits
      log.bytes = Buffer.concat([log.bytes.subarray(0, head), bytes])
      logs.set(piece.sequence, log)
      for (const sequence of logs.keys()) if (sequence > piece.sequence) logs.delete(sequence)
    }
    return logs
  }

  /**
   * The database of a version with what was shipped after it, up to a time. SQLite itself applies the logs.
   *
   * @param image the database file at the version's position
   * @returns the file
   */
  restore(image: string, position: LogPosition, until = Number.POSITIVE_INFINITY): string {
    const file = path.join(tempDirectory('restored'), 'cell.db')
    fs.copyFileSync(image, file)
    const logs = this.#logs(position)
    for (let sequence = position.sequence + 1; logs.has(sequence); sequence++) {
      const { bytes, pageSize, commits } = logs.get(sequence) as JoinedLog
      const last = commits.filter(([, time]) => time <= until).at(-1)
      if (last === undefined) break
      fs.writeFileSync(`${file}-wal`, bytes.subarray(0, walBytes(last[0], pageSize)))
      const applied = recover(file)
      if (applied !== last[0])
        throw new Error(`SQLite took ${applied} of ${last[0]} frames of log ${sequence}`)
      if (last !== commits.at(-1)) break
    }
    return file
  }
}

/** An entry stands for all commits of its millisecond: if only some of them are replaced, the others stay. */
function upTo(commits: readonly [number, number][], from: number): [number, number][] {
  const kept = commits.filter(([frames]) => frames <= from)
  const cut = commits[kept.length]
  return cut !== undefined && (kept.at(-1)?.[0] ?? 0) < from ? [...kept, [from, cut[1]]] : kept
}

function grows(before: [number, number] | undefined, frames: number, time: number): boolean {
  return before !== undefined && (frames <= before[0] || time < before[1])
}

/** Has SQLite move the log next to a database into it. @returns how many frames it took */
export function recover(file: string): number {
  const connection = new Database(file)
  try {
    const [state] = connection.pragma('wal_checkpoint(NOOP)') as { log: number }[]
    connection.pragma('wal_checkpoint(TRUNCATE)')
    return Math.max(state?.log ?? 0, 0)
  } finally {
    connection.close()
  }
}
