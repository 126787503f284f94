import { SharedReads } from '../../../base/async/shared-reads.ts'
import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import { LruCache } from '../../../base/lru-cache.ts'
import { isCellError } from '../../../errors.ts'
import { corrupt, inObject } from '../../archive/backup-errors.ts'
import { MANIFEST_MEMBER } from '../../archive/manifest.ts'
import type { CallOptions, ObjectStore } from '../../object-store/object-store.ts'
import { type LogNumber, logKey } from '../../versions/object-keys.ts'
import type { LogManifest } from '../log/log-manifest.ts'
import type { LogRef, LogRefs } from '../log/log-refs.ts'
import { LogRow } from '../log/log-row.ts'
import {
  blocksWith,
  type LogTail,
  missingLog,
  type ReadLogManifest,
  readLogBytes,
  readLogManifest,
  readLogTail,
} from './stored-log.ts'

/** Bytes of the kept ends of objects, which hold all of a small one. */
const TAIL_BYTES_MAX = 64 * 1_048_576
/** Values in the kept manifests, of about 50 bytes each. */
const MANIFEST_VALUES_MAX = 1_000_000

/** Part of a member, from its beginning. `offset` counts as in the manifest. */
export interface MemberBytes {
  offset: number
  size: number
}

/**
 * The log objects of a prefix, for all restores of a process: what is listed once is listed only from there on, and of the
 * manifests those that were used last are kept.
 */
export class LogIndex {
  readonly #store: ObjectStore
  readonly #storeId: string
  readonly #manifests = new SharedReads<ReadLogManifest>(
    new LruCache(MANIFEST_VALUES_MAX, (_, { manifest }) => valuesIn(manifest)),
  )
  readonly #tails = new SharedReads<LogTail>(
    new LruCache(TAIL_BYTES_MAX, (_, { bytes, blocks }) => bytes.length + 40 * blocks.length),
  )
  readonly #row: LogRow
  #looking: Promise<unknown> = Promise.resolve()

  /** @param epoch this node's, if it has one */
  constructor(store: ObjectStore, storeId: string, epoch: () => number | undefined = () => undefined) {
    this.#store = store
    this.#storeId = storeId
    this.#row = new LogRow(store, (ref) => this.#previous(ref), epoch)
  }

  /**
   * The log objects after a key, in their order, without those that are void. A listing may lag: what it leaves out is looked
   * for.
   *
   * @param after null: all
   */
  after(after: string | null, options: CallOptions = {}): Promise<LogRefs> {
    const { signal } = options
    const looking = this.#looking
      .catch(() => {})
      .then(() => {
        signal?.throwIfAborted()
        return this.#row.after(after ?? '', options)
      })
    this.#looking = looking
    return unlessAborted(looking, signal)
  }

  /** @throws `backup_corrupt` that names the object */
  async manifest(ref: LogRef): Promise<LogManifest> {
    return (await this.#read(ref)).manifest
  }

  /** A member's bytes, or the first of them, in chunks. @throws `backup_corrupt` that names the object */
  async *member(ref: LogRef, bytes: MemberBytes, options: CallOptions = {}): AsyncGenerator<Buffer> {
    const { from, to } = await this.#placeOf(ref, bytes)
    yield* readLogBytes(this.#store, ref.key, await this.#tail(ref), from, to, options)
  }

  /** How many bytes of the stored object hold a part of a member. */
  async storedBytes(ref: LogRef, bytes: MemberBytes): Promise<number> {
    const { from, to } = await this.#placeOf(ref, bytes)
    const blocks = blocksWith((await this.#tail(ref)).blocks, from, to)
    return blocks.reduce((sum, { compressed }) => sum + compressed, 0)
  }

  async #placeOf(ref: LogRef, { offset, size }: MemberBytes): Promise<{ from: number; to: number }> {
    const from = (await this.#read(ref)).entryBytes + offset
    return { from, to: from + size }
  }

  #tail(ref: LogRef): Promise<LogTail> {
    return this.#tails.get(ref.key, () => readLogTail(this.#store, ref))
  }

  async #read(ref: LogRef): Promise<ReadLogManifest> {
    if (ref.isMissing) throw missingLog(ref.key)
    return await this.#manifests.get(ref.key, () => readLogManifest(this.#store, ref, this.#storeId))
  }

  /** The key that an object continues; undefined if it cannot be read: it is refused where it is needed. */
  async #previous(ref: LogRef): Promise<string | null | undefined> {
    try {
      return (await this.manifest(ref)).previous?.key ?? null
    } catch (error) {
      if (isCellError(error, 'backup_corrupt')) return undefined
      throw error
    }
  }
}

/** @throws `backup_corrupt` if an object does not name the one before it */
export function checkPrevious(manifest: LogManifest, before: LogNumber | undefined): void {
  if (before === undefined) return
  const { key, previous, epoch } = manifest
  const expected = logKey(before)
  if (previous?.key === expected) return
  const isMissing = previous !== null && previous.key > expected && before.epoch < epoch
  if (isMissing) throw missingLog(previous.key)
  throw inObject(key, corrupt(MANIFEST_MEMBER, `it does not continue ${expected}`))
}

function valuesIn({ cells }: LogManifest): number {
  const pieces = cells.flatMap((cell) => cell.pieces)
  return 4 * cells.length + pieces.reduce((sum, { commits }) => sum + 10 + 3 * commits.length, 10)
}
