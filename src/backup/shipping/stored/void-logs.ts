import type { CallOptions, ObjectStore } from '../../object-store/object-store.ts'
import { type LogNumber, parseLogKey } from '../../versions/object-keys.ts'
import type { LogManifest } from '../log/log-manifest.ts'
import { firstLogFrom } from './last-log.ts'
import type { StoredLog } from './stored-log.ts'

export interface VoidLogsParts {
  objectStore: ObjectStore
  readManifest(stored: StoredLog): Promise<LogManifest>
}

/**
 * Tells which log objects nobody reads: what an epoch has beyond the object that a later one goes on from (see `LogRow`). It asks
 * once per epoch, so it is for one look at the prefix.
 */
export class VoidLogs {
  readonly #parts: VoidLogsParts
  readonly #options: CallOptions
  /** By epoch. */
  readonly #joints = new Map<number, Promise<string | undefined>>()

  constructor(parts: VoidLogsParts, options: CallOptions) {
    this.#parts = parts
    this.#options = options
  }

  async has(key: string): Promise<boolean> {
    const joint = await this.#jointAfter((parseLogKey(key) as LogNumber).epoch)
    return joint !== undefined && joint < key
  }

  /** What the next epoch goes on from that is not void itself; empty: from nothing. @returns undefined if no epoch is known to */
  #jointAfter(epoch: number): Promise<string | undefined> {
    let joint = this.#joints.get(epoch)
    if (joint === undefined) {
      joint = this.#find(epoch)
      this.#joints.set(epoch, joint)
    }
    return joint
  }

  async #find(epoch: number): Promise<string | undefined> {
    const { objectStore, readManifest } = this.#parts
    const next = await firstLogFrom(objectStore, { epoch: epoch + 1, number: 1 }, this.#options)
    if (next === undefined || next.number > 1) return undefined
    // If it is void, what goes on after it goes on after this epoch, too.
    if (await this.has(next.key)) return await this.#jointAfter(next.epoch)
    return (await readManifest(next)).previous?.key ?? ''
  }
}
