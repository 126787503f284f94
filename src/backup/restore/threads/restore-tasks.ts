import { createHash, type Hash } from 'node:crypto'
import fs from 'node:fs'
import { importDatabase } from '../../../engine/files/import-database.ts'
import { applyLog, examineDatabase, proveDatabase } from '../build/restore-database.ts'
import { LEFT, type RestoreTask, type RestoreTaskRunner, SOUND } from './restore-task.ts'

const CHUNK_BYTES = 262_144

/** Hashes what the file holds, not what was sent to it. Right after the write, the system reads it from memory. */
export class RestoreTasks implements RestoreTaskRunner {
  #hashing: { hash: Hash; fd: number; done: number } | undefined
  #chunk: Buffer | undefined
  readonly #memory: Uint8Array

  /** @param memory where an archive to unpack is */
  constructor(memory: Uint8Array = new Uint8Array()) {
    this.#memory = memory
  }

  async run(task: RestoreTask): Promise<string | undefined> {
    switch (task.kind) {
      case 'unpack': {
        const { unpackArchive } = await import('../build/unpack-archive.ts')
        // A hash that a failure has cut off is of no use to the next task.
        const isSound = await unpackArchive(this.#memory.subarray(0, task.bytes), task.place, this).finally(
          () => this.close(),
        )
        return isSound ? SOUND : undefined
      }
      case 'hash':
        this.#hash(task.file, task.bytes)
        return undefined
      case 'digest':
        return this.#digest()
      case 'apply log':
        applyLog(task.file, task.member, task.frames, task.parts)
        return undefined
      case 'prove':
        return proveDatabase(task.file, task.member, task.leavesLongChecks) ? SOUND : LEFT
      case 'examine':
        return this.#examine(task)
      case 'import':
        await importDatabase(task.file, task.target, task.rules)
        return undefined
    }
  }

  async close(): Promise<void> {
    if (this.#hashing !== undefined) fs.closeSync(this.#hashing.fd)
    this.#hashing = undefined
  }

  #examine({ file, member, deep, leavesLongChecks }: Extract<RestoreTask, { kind: 'examine' }>): string {
    const contents = examineDatabase(file, member, deep, leavesLongChecks)
    return contents === undefined ? LEFT : JSON.stringify(contents)
  }

  #hash(file: string, bytes: number): void {
    this.#hashing ??= { hash: createHash('sha256'), fd: fs.openSync(file, 'r'), done: 0 }
    this.#chunk ??= Buffer.allocUnsafe(CHUNK_BYTES)
    const { hash, fd } = this.#hashing
    while (this.#hashing.done < bytes) {
      const length = Math.min(CHUNK_BYTES, bytes - this.#hashing.done)
      const read = fs.readSync(fd, this.#chunk, 0, length, this.#hashing.done)
      if (read === 0) throw new Error('The restored file is shorter than the bytes written to it.')
      hash.update(this.#chunk.subarray(0, read))
      this.#hashing.done += read
    }
  }

  #digest(): string {
    if (this.#hashing === undefined) throw new Error('No hash was started.')
    const { hash, fd } = this.#hashing
    this.#hashing = undefined
    fs.closeSync(fd)
    return hash.digest('hex')
  }
}
