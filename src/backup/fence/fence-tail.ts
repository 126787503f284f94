import type { RememberedStart } from '../../catalog/remembered-object-store.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import {
  FENCE_PREFIX,
  fenceKey,
  holderKey,
  holdersOf,
  parseFence,
  parseHolder,
} from '../versions/object-keys.ts'
import { type HolderPlace, type HolderRecord, readRecord } from './holder-record.ts'

/** The newest epoch of a prefix, and the newest record of its node. */
export interface FenceTail {
  epoch: number
  /** Of the newest record; 0 is the fence itself. */
  sequence: number
  /** Undefined if it is damaged. */
  record: HolderRecord | undefined
}

/** A record that is listed may be replaced before it is read. */
const READ_ATTEMPTS = 3

/** The object that is a record: 0 is the fence. */
export function recordKey({ epoch, sequence }: Pick<FenceTail, 'epoch' | 'sequence'>): string {
  return sequence === 0 ? fenceKey(epoch) : holderKey(epoch, sequence)
}

/**
 * A listing may lag: what a directory knows to have written is looked for by its name.
 *
 * @param starts of a directory, in this prefix
 * @returns undefined if the prefix never had a fence
 */
export async function readTail(
  store: ObjectStore,
  starts: readonly RememberedStart[],
  options: CallOptions,
): Promise<FenceTail | undefined> {
  const epoch = await newestEpoch(store, Math.max(0, ...starts.map((each) => each.epoch)), options)
  if (epoch === 0) return undefined
  const known = starts.filter((each) => each.epoch === epoch)
  for (let attempt = 1; ; attempt++) {
    const sequence = await newestSequence(store, epoch, known, options)
    const key = recordKey({ epoch, sequence })
    const record = await readRecord(store, key, options)
    if (record !== undefined || attempt === READ_ATTEMPTS) return { epoch, sequence, record }
  }
}

/** A listing may lag. Epochs have no gaps, so the fence after the last one that is listed shows whether it does. */
async function newestEpoch(store: ObjectStore, known: number, options: CallOptions): Promise<number> {
  const listed = (await newestListed(store, known, options)) || (await newestListed(store, 0, options))
  const isStored = async (epoch: number) => (await store.head(fenceKey(epoch), options)) !== undefined
  let newest = listed < known && (await isStored(known)) ? known : listed
  while (await isStored(newest + 1)) newest++
  return newest
}

async function newestListed(store: ObjectStore, known: number, options: CallOptions): Promise<number> {
  const after = known > 1 ? fenceKey(known - 1) : undefined
  let newest = 0
  for await (const { key } of store.list(FENCE_PREFIX, { ...options, after }))
    newest = Math.max(newest, parseFence(key) ?? 0)
  return newest
}

async function newestSequence(
  store: ObjectStore,
  epoch: number,
  known: readonly RememberedStart[],
  options: CallOptions,
): Promise<number> {
  let newest = 0
  for await (const { key } of store.list(holdersOf(epoch), options))
    newest = Math.max(newest, parseHolder(key)?.sequence ?? 0)
  const written = known.flatMap(({ sequence, stored = 0 }) => [sequence, stored])
  for (const sequence of new Set(written.sort((a, b) => b - a))) {
    if (sequence <= newest) break
    if ((await store.head(holderKey(epoch, sequence), options)) !== undefined) return sequence
  }
  return newest
}

/**
 * What the newest record of a prefix, its tail, says of a directory:
 *
 * - `newest`: nothing was written there that the directory does not have.
 * - `in doubt`: the record is the directory's own. But the directory may be a young copy, from after that record: then what was
 *   stored since, until its machine died, is not in it.
 * - `outdated`: others wrote there, or the directory went on after it was copied.
 * - `set back`: the record is the directory's own, and older than what it is known to have stored. So the object store lacks more.
 */
export type Standing = 'newest' | 'in doubt' | 'outdated' | 'set back'

/** What a directory knows of itself. */
export interface DirectoryFacts {
  /** That it has ever written, in whichever prefix: one may have got another URL. */
  allStarts: readonly RememberedStart[]
  /** Those in this prefix. */
  starts: readonly RememberedStart[]
  here: Pick<HolderPlace, 'boot_id' | 'directory'>
  /** It is to go on, whoever has written: nobody knows where it comes from. */
  takesOver: boolean
}

/** @param tail undefined if the prefix has no fence */
export function standingOf(tail: FenceTail | undefined, facts: DirectoryFacts): Standing {
  if (tail !== undefined && !isOwn(tail, facts)) return 'outdated'
  if (lacksStored(tail, facts.starts)) return 'set back'
  return tail === undefined || isSure(tail, facts) ? 'newest' : 'in doubt'
}

/** By the instance, since epochs alone say nothing: a start may have tried for one that another node got. */
function isOwn({ epoch, sequence, record }: FenceTail, { allStarts, starts }: DirectoryFacts): boolean {
  if (record !== undefined)
    return allStarts.some((each) => each.instance === record.instance && sequence <= each.sequence)
  // It is damaged.
  return starts.some((each) => each.epoch === epoch && each.stored !== undefined && sequence <= each.sequence)
}

function lacksStored(tail: FenceTail | undefined, starts: readonly RememberedStart[]): boolean {
  const { epoch, sequence } = tail ?? { epoch: 0, sequence: 0 }
  return starts.some(
    ({ epoch: own, stored }) => stored !== undefined && (own > epoch || (own === epoch && stored > sequence)),
  )
}

/**
 * Nothing is stored after a record that says `closed`. Without it, only a directory that was not put back is sure: no image of a
 * disk is put back while the machine runs.
 */
function isSure({ record }: FenceTail, { here, takesOver }: DirectoryFacts): boolean {
  if (record === undefined) return false
  if (record.closed) return true
  return (
    !takesOver &&
    record.boot_id !== null &&
    record.boot_id === here.boot_id &&
    record.directory === here.directory
  )
}
