import fs from 'node:fs'
import { PAGE_BYTES } from '../cell-settings.ts'
import { walBytes } from './wal-file.ts'

/** Shorter logs get no reserve: most cells change little while they are open. Of a log that is moved early, an eighth is enough. */
const FROM_BYTES = 65_536
const FROM_SHARE = 1 / 8
/** No log gets more at a time. */
const ZEROS = Buffer.alloc(524_288)
/** The file is not made if it is gone. */
const APPEND = fs.constants.O_WRONLY | fs.constants.O_APPEND

/**
 * Zeros behind the last frame of a write-ahead log. An fsync after a commit that makes the file longer also stores where the
 * new blocks are, which takes about as long again (ext4: 250 µs in place of 130). A commit that overwrites zeros costs no more
 * than its own bytes. SQLite reads a log up to the first frame that does not continue it, so that zeros end it as the
 * frames of an earlier generation do.
 *
 * They are appended, never written at a place: what another program commits meanwhile cannot be overwritten.
 */
export class WalReserve {
  readonly #path: string
  readonly #bytesMax: number
  readonly #fromBytes: number
  #frames = 0
  /** The length of the file when it was last seen. */
  #end = 0
  /** Since the log has begun: each further try would cost every commit an `open` in vain. */
  #hasFailed = false

  /**
   * @param path the WAL
   * @param bytesMax a longer one begins again soon, and then overwrites itself
   */
  constructor(path: string, bytesMax: number) {
    this.#path = path
    this.#bytesMax = bytesMax
    this.#fromBytes = Math.min(FROM_BYTES, FROM_SHARE * bytesMax)
  }

  /**
   * After a commit that is not stored in the commit log. Never throws: without a reserve commits are slower, and nothing else.
   *
   * @param frames up to the newest commit
   */
  keep(frames: number): void {
    if (frames < this.#frames) this.#begunAgain()
    this.#frames = frames
    const used = walBytes(frames, PAGE_BYTES)
    const reserve = Math.min(used, ZEROS.length)
    // SQLite cuts what is longer when it begins the log again: each time, such zeros would be written in vain.
    const wanted = Math.min(used + reserve, this.#bytesMax)
    if (this.#hasFailed || used < this.#fromBytes || this.#end >= wanted) return
    try {
      this.#end = lengthen(this.#path, wanted, Math.min(wanted + reserve, this.#bytesMax))
    } catch {
      // A full disk, for example: the commits themselves may still have room.
      this.#hasFailed = true
    }
  }

  /** The log may have been cut, and a disk that was full may have room again. */
  #begunAgain(): void {
    this.#end = 0
    this.#hasFailed = false
  }
}

/** Appends zeros to a file that is shorter than `wanted`, up to a length or as many as there are. @returns its length then */
function lengthen(file: string, wanted: number, upTo: number): number {
  // A WAL carries no locks, so that it can be closed again (invariant 4).
  const fd = fs.openSync(file, APPEND)
  try {
    const { size } = fs.fstatSync(fd)
    return size >= wanted ? size : size + fs.writeSync(fd, ZEROS, 0, Math.min(upTo - size, ZEROS.length))
  } finally {
    fs.closeSync(fd)
  }
}
