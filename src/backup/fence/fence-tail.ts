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
import { type HolderRecord, readRecord } from './holder-record.ts'

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
