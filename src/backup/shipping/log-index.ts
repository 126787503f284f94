import { LruCache } from '../../base/lru-cache.ts'
import { SharedReads } from '../../base/shared-reads.ts'
import { isCellError } from '../../errors.ts'
import { corrupt, inObject } from '../archive/backup-errors.ts'
import { MANIFEST_MEMBER } from '../archive/manifest.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { LOG_PREFIX, type LogNumber, logKey, parseLogKey } from '../versions/object-keys.ts'
import type { LogManifest } from './log-manifest.ts'
import {
  blocksWith,
  type LogTail,
  missingLog,
  type ReadLogManifest,
  readLogBytes,
  readLogManifest,
  readLogTail,
  type StoredLog,
} from './stored-log.ts'

/** A log object in the order of its kind. */
export interface LogRef extends StoredLog, LogNumber {
  /** Neither a listing nor a look at the key shows it, although later objects are there. */
  isMissing: boolean
  /** Missing, and with it all before it: retention removes the oldest objects, once later versions hold what is in them. */
  isRemoved?: true
}

/** Bytes of the kept ends of objects, which hold all of a small one. */
const TAIL_BYTES_MAX = 64 * 1_048_576
/** Values in the kept manifests, of about 50 bytes each. */
const MANIFEST_VALUES_MAX = 1_000_000
/** Part of a member, from its beginning. `offset` counts as in the manifest. */
export interface MemberBytes {
  offset: number
  size: number
}

/** A look at a key for each of these, in a gap of the listing. */
const GAP_LOOKS_MAX = 16
/** Of the epochs after the last listed object, the first object of so many of the newest is looked for. */
const EPOCHS_LOOKED_AT = 16

/**
 * The log objects of a prefix, for all restores of a process: what is listed once is listed only from there on, and of the
 * manifests those that were used last are kept.
 */
export class LogIndex {
  readonly #store: ObjectStore
  readonly #storeId: string
  readonly #epoch: () => number | undefined
  readonly #manifests = new SharedReads<ReadLogManifest>(
    new LruCache(MANIFEST_VALUES_MAX, (_, { manifest }) => valuesIn(manifest)),
  )
  readonly #tails = new SharedReads<LogTail>(
    new LruCache(TAIL_BYTES_MAX, (_, { bytes, blocks }) => bytes.length + 40 * blocks.length),
  )
  /** All objects after `#after`, in their order. */
  #refs: LogRef[] = []
  #after: string | undefined
  #looking: Promise<unknown> = Promise.resolve()

  /** @param epoch of this node, which is the newest one; undefined if it has none */
  constructor(store: ObjectStore, storeId: string, epoch: () => number | undefined) {
    this.#store = store
    this.#storeId = storeId
    this.#epoch = epoch
  }

  /**
   * The log objects after a key, in their order, without those that are void. A listing may lag: a number that it leaves out
   * is looked for, and so are those after the last one.
   *
   * @param after null: all
   */
  async after(after: string | null, options: CallOptions = {}): Promise<LogRef[]> {
    const looking = this.#looking.catch(() => {}).then(() => this.#look(after, options))
    this.#looking = looking
    looking.catch(() => {})
    await looking
    const refs = this.#refs.filter(({ key }) => after === null || key > after)
    const isVoid = await this.#voids(refs)
    return await this.#withGaps(
      refs.filter((ref) => !isVoid(ref)),
      after,
    )
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

  /** Lists what is not known yet. */
  async #look(after: string | null, options: CallOptions): Promise<void> {
    // The object itself is listed too: if it is still there, none after it was removed for its age.
    const start = after === null ? '' : keyBefore(after)
    if (this.#after === undefined || start < this.#after) {
      this.#refs = []
      this.#after = start
    }
    // What was listed may have gone since. The oldest goes first: if that is there, all are.
    const [oldest] = this.#refs
    if (oldest !== undefined && (await this.#head(oldest, options)) === undefined) this.#refs = []
    const known = this.#refs.at(-1)?.key ?? this.#after
    const found = new Map<string, LogRef>()
    for await (const { key, size } of this.#store.list(LOG_PREFIX, {
      ...options,
      after: known === '' ? undefined : known,
    })) {
      const number = parseLogKey(key)
      if (number !== undefined) found.set(key, { key, sizeBytes: size, ...number, isMissing: false })
    }
    const refs = [...this.#refs, ...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1))
    this.#refs = await this.#complete(refs, options)
  }

  /** Looks for what the listing lacks. */
  async #complete(listed: readonly LogRef[], options: CallOptions): Promise<LogRef[]> {
    const refs: LogRef[] = []
    for (const ref of listed) {
      const before = refs.at(-1)
      const first = before?.epoch === ref.epoch ? before.number + 1 : 1
      const missing = before === undefined ? 0 : Math.min(ref.number - first, GAP_LOOKS_MAX)
      const places = Array.from({ length: missing }, (_, i) => ({ epoch: ref.epoch, number: first + i }))
      refs.push(...(await this.#heads(places, options)), ref)
    }
    for (;;) {
      const { epoch, number } = refs.at(-1) ?? { epoch: 0, number: 0 }
      const newest = this.#epoch() ?? epoch + EPOCHS_LOOKED_AT
      const first = Math.max(epoch, newest - EPOCHS_LOOKED_AT) + 1
      const length = Math.max(0, newest - first + 1)
      const places = Array.from({ length }, (_, i) => ({ epoch: first + i, number: 1 }))
      if (number > 0) places.unshift({ epoch, number: number + 1 })
      const [next] = await this.#heads(places, options)
      if (next === undefined) return refs
      refs.push(next)
    }
  }

  async #heads(places: readonly LogNumber[], options: CallOptions): Promise<LogRef[]> {
    const found = await Promise.all(places.map((place) => this.#head(place, options)))
    return found.filter((ref) => ref !== undefined)
  }

  async #head(place: LogNumber, options: CallOptions): Promise<LogRef | undefined> {
    const key = logKey(place)
    const found = await this.#store.head(key, options)
    return found && { key, sizeBytes: found.size, ...place, isMissing: false }
  }

  /** What an epoch has beyond the object that the first one of a later epoch names is void. */
  async #voids(refs: readonly LogRef[]): Promise<(ref: LogRef) => boolean> {
    const ends: { epoch: number; last: string }[] = []
    for (const ref of refs) {
      if (ref.number !== 1) continue
      const previous = await this.#previous(ref)
      if (previous !== undefined) ends.push({ epoch: ref.epoch, last: previous?.key ?? '' })
    }
    return ({ epoch, key }) => ends.some((end) => epoch < end.epoch && key > end.last)
  }

  /** Adds, as missing, the first object of each gap; and the last one that is removed, if more were removed than those up to `after`. */
  async #withGaps(refs: readonly LogRef[], after: string | null): Promise<LogRef[]> {
    const place = after === null ? undefined : parseLogKey(after)
    // If the object before them has gone, retention may have removed more of them.
    const isKept = after !== null && this.#refs.some(({ key }) => key === after)
    let before = isKept ? place : undefined
    const removed = isKept ? undefined : await this.#removedBefore(refs[0], after)
    const all: LogRef[] = removed === undefined ? [] : [removed]
    for (const ref of refs) {
      const isNext = before?.epoch === ref.epoch ? ref.number === before.number + 1 : ref.number === 1
      if (before !== undefined && !isNext) all.push(missingRef(before, ref))
      all.push(ref)
      before = ref
    }
    return all
  }

  async #removedBefore(first: LogRef | undefined, after: string | null): Promise<LogRef | undefined> {
    const previous = first && (await this.#previous(first))?.key
    const place = previous === undefined ? undefined : parseLogKey(previous)
    if (previous === undefined || place === undefined || previous <= (after ?? '')) return undefined
    return { ...place, key: previous, sizeBytes: 0, isMissing: true, isRemoved: true }
  }

  /** What an object says that it continues; undefined if it cannot be read: it is refused where it is needed. */
  async #previous(ref: LogRef): Promise<LogManifest['previous'] | undefined> {
    try {
      return (await this.manifest(ref)).previous
    } catch (error) {
      if (isCellError(error, 'backup_corrupt')) return undefined
      throw error
    }
  }
}

function missingRef(before: LogNumber, after: LogNumber): LogRef {
  const isSame = before.epoch === after.epoch
  const place = { epoch: after.epoch, number: isSame ? before.number + 1 : 1 }
  return { ...place, key: logKey(place), sizeBytes: 0, isMissing: true }
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

function keyBefore(key: string): string {
  const { epoch, number } = parseLogKey(key) ?? { epoch: 0, number: 1 }
  return logKey({ epoch, number: number - 1 })
}

function valuesIn({ cells }: LogManifest): number {
  const pieces = cells.flatMap((cell) => cell.pieces)
  return 4 * cells.length + pieces.reduce((sum, { commits }) => sum + 10 + 3 * commits.length, 10)
}
