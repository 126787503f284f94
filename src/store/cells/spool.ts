import { freeBytes } from '../../base/machine/free-bytes.ts'
import { CellError } from '../../errors.ts'

/** What stays free on the disk, for everybody else. */
const SPARE_BYTES = 64 * 1_048_576
/** A file whose size is not known takes its room in such steps: each asks the file system. */
const STEP_BYTES = 1_048_576

/** The room of one file. */
export interface SpoolRoom {
  /** It has so many bytes now. Takes more room if that is needed. @throws `disk_full` */
  wrote(bytes: number): void
  /** It grows no more, or it is gone. */
  release(): void
}

/**
 * The folder for files on their way into the store and out of it. Each takes its room on the disk before it is written: what
 * those under way have yet to write counts as written.
 */
export class Spool {
  readonly folder: string
  readonly #free: (folder: string) => number
  /** Bytes that files may still write. */
  #promised = 0

  /** @param free how many bytes a disk has left */
  constructor(folder: string, free: (folder: string) => number = freeBytes) {
    this.folder = folder
    this.#free = free
  }

  /**
   * Takes room for a file. The folder exists.
   *
   * @param bytes that it will have; 0 if that is not known
   * @throws `disk_full` if that would not leave room for others
   */
  take(bytes: number): SpoolRoom {
    this.#promise(bytes)
    let size = bytes
    let written = 0
    return {
      wrote: (now) => {
        for (; now > size; size += STEP_BYTES) this.#promise(STEP_BYTES)
        this.#promised -= now - written
        written = now
      },
      release: () => {
        this.#promised -= size - written
        size = written
      },
    }
  }

  #promise(bytes: number): void {
    const free = this.#free(this.folder)
    if (bytes > 0 && this.#promised + bytes + SPARE_BYTES > free) {
      throw new CellError(
        'disk_full',
        `The file takes ${bytes} bytes more. The disk has ${free}, of which ${this.#promised} are promised to other files under way, and ${SPARE_BYTES} stay free.`,
      )
    }
    this.#promised += bytes
  }
}
