import { createHash, type Hash } from 'node:crypto'
import fs from 'node:fs'
import { applyLog, proveDatabase } from './restore-database.ts'

/** Work on the database under restore's files that holds the thread it is done on. */
export type RestoreTask =
  /** Hashes what a file holds, from where the last one ended up to so many bytes. */
  | { kind: 'hash'; file: string; bytes: number }
  /** Ends the hash; its result is the SHA-256, in hexadecimal. */
  | { kind: 'digest' }
  | { kind: 'apply log'; file: string; member: string; frames: number }
  | { kind: 'prove'; file: string; member: string }

/** Does tasks one after the other, here or on a thread of its own (restore-thread.ts). */
export interface RestoreTaskRunner {
  /** @throws `backup_corrupt`; of the disk's and the memory's failures, as they come or as a `CellError` */
  run(task: RestoreTask): Promise<string | undefined>
  close(): Promise<void>
}

const CHUNK_BYTES = 262_144

/** What is proven is what lies in the file, so it is read again from there: right after it was written, from memory. */
export class RestoreTasks implements RestoreTaskRunner {
  #hashing: { hash: Hash; fd: number; done: number } | undefined
  #chunk: Buffer | undefined

  async run(task: RestoreTask): Promise<string | undefined> {
    switch (task.kind) {
      case 'hash':
        this.#hash(task.file, task.bytes)
        return undefined
      case 'digest':
        return this.#digest()
      case 'apply log':
        applyLog(task.file, task.member, task.frames)
        return undefined
      case 'prove':
        proveDatabase(task.file, task.member)
        return undefined
    }
  }

  async close(): Promise<void> {
    if (this.#hashing !== undefined) fs.closeSync(this.#hashing.fd)
    this.#hashing = undefined
  }

  #hash(file: string, bytes: number): void {
    this.#hashing ??= { hash: createHash('sha256'), fd: fs.openSync(file, 'r'), done: 0 }
    this.#chunk ??= Buffer.allocUnsafe(CHUNK_BYTES)
    const { hash, fd } = this.#hashing
    while (this.#hashing.done < bytes) {
      const length = Math.min(CHUNK_BYTES, bytes - this.#hashing.done)
      const read = fs.readSync(fd, this.#chunk, 0, length, this.#hashing.done)
      if (read === 0) throw new Error('The file is shorter than what was written to it.')
      hash.update(this.#chunk.subarray(0, read))
      this.#hashing.done += read
    }
  }

  #digest(): string {
    if (this.#hashing === undefined) throw new Error('There is nothing to digest.')
    const { hash, fd } = this.#hashing
    this.#hashing = undefined
    fs.closeSync(fd)
    return hash.digest('hex')
  }
}
