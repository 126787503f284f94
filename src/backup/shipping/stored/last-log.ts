import { createHash } from 'node:crypto'
import { CellError } from '../../../errors.ts'
import type { CallOptions, ObjectStore } from '../../object-store/object-store.ts'
import { LOG_PREFIX, type LogNumber, logKey, parseLogKey } from '../../versions/object-keys.ts'
import type { StoredLog } from './stored-log.ts'

interface LastLogOptions extends CallOptions {
  /** One that there is: from there on it takes a few requests. */
  known?: LogNumber | null | undefined
}

/** Answers for one hash. */
const READS_MAX = 6

/**
 * Finds the newest log object of an epoch or of those before. A listing may lag: what it lacks at its end is looked for.
 *
 * @param epochMax later ones are another node's
 */
export async function findLastLog(
  store: ObjectStore,
  epochMax: number,
  options: LastLogOptions = {},
): Promise<LogNumber | undefined> {
  const listed = await lastListed(store, epochMax, options)
  const { signal } = options
  const look = async (place: LogNumber) => (await store.head(logKey(place), { signal })) && place
  const unlisted = await newestUnlisted(listed ?? { epoch: 0, number: 0 }, epochMax, new Set(), look)
  return unlisted ?? listed
}

/**
 * A week of log objects are 60,000 keys: it searches instead of reading them all, which is right as long as only the oldest
 * ones are ever removed.
 */
async function lastListed(
  store: ObjectStore,
  epochMax: number,
  { known, ...options }: LastLogOptions,
): Promise<LogNumber | undefined> {
  const firstFrom = async (at: LogNumber) => {
    const found = await firstLogFrom(store, at, options)
    return found !== undefined && found.epoch <= epochMax ? found : undefined
  }
  const inEpoch = async (epoch: number) => (await firstFrom({ epoch, number: 1 }))?.epoch
  const isOfEpoch = known?.epoch === epochMax
  const epoch = isOfEpoch ? epochMax : await greatest(await below(epochMax, inEpoch), epochMax, inEpoch)
  if (epoch === 0) return undefined
  const inNumbers = async (number: number) => {
    const found = await firstFrom({ epoch, number })
    return found?.epoch === epoch ? found.number : undefined
  }
  return { epoch, number: await greatest(isOfEpoch ? known.number : 0, Number.POSITIVE_INFINITY, inNumbers) }
}

/**
 * In hexadecimal; undefined if there is no such object. It goes into an object that nobody can change any more, and an answer may
 * come damaged: so it counts once two answers in a row agree.
 */
export async function sha256OfObject(
  store: ObjectStore,
  key: string,
  options: CallOptions = {},
): Promise<string | undefined> {
  let before: string | undefined
  for (let reads = 0; reads < READS_MAX; reads++) {
    const read = await sha256OfAnswer(store, key, options)
    if (read === undefined || read === before) return read
    before = read
  }
  throw new CellError('object_store_unavailable', `${key} is another one each time it is read. Try again.`)
}

async function sha256OfAnswer(
  store: ObjectStore,
  key: string,
  options: CallOptions,
): Promise<string | undefined> {
  const content = await store.get(key, options)
  if (content === undefined) return undefined
  const hash = createHash('sha256')
  for await (const chunk of content.body) hash.update(chunk)
  return hash.digest('hex')
}

/** The first listed log object from a number on. */
export async function firstLogFrom(
  store: ObjectStore,
  { epoch, number }: LogNumber,
  options: CallOptions,
): Promise<(LogNumber & StoredLog) | undefined> {
  const after = logKey({ epoch, number: number - 1 })
  for await (const { key, size: sizeBytes } of store.list(LOG_PREFIX, { ...options, after })) {
    const found = parseLogKey(key)
    if (found !== undefined) return { ...found, key, sizeBytes }
  }
  return undefined
}

/** @param from the first existing number from this one on */
type FirstFrom = (from: number) => Promise<number | undefined>

/** A number with one from it on, not far below the greatest; 0 if there is none. The greatest is mostly near `high`. */
async function below(high: number, first: FirstFrom): Promise<number> {
  for (let step = 1, at = high; at > 0; at -= step, step *= 2) {
    const found = await first(at)
    if (found !== undefined) return found
  }
  return high > 1 ? ((await first(1)) ?? 0) : 0
}

/** The greatest existing number. @param low exists, or is 0 */
async function greatest(low: number, high: number, first: FirstFrom): Promise<number> {
  let [known, max] = [low, high]
  for (let step = 1; known < max; ) {
    const at = Math.min(known + step, max)
    const found = await first(at)
    if (found === undefined) {
      max = at - 1
      step = Math.max(1, Math.ceil((max - known) / 2))
    } else {
      known = found
      step *= 2
    }
  }
  return known
}

/** Of the epochs after the last known one, up to this node's own, so many of the newest are looked at. */
export const EPOCHS_LOOKED_AT = 16
/** A node that has no epoch looks at so many after the last known one. */
export const EPOCHS_AHEAD = 4

/**
 * Looks for log objects that a listing lacks after the last one that it shows: the next number, and the first object of
 * each later epoch.
 *
 * @param epochMax later ones are another node's; undefined: unknown
 * @param empty epochs that need no look; nobody can write in those that are added
 * @returns the newest that it has found
 */
export async function newestUnlisted<T>(
  last: LogNumber,
  epochMax: number | undefined,
  empty: Set<number>,
  look: (place: LogNumber) => Promise<T | undefined>,
): Promise<T | undefined> {
  let [at, newest] = [last, undefined as T | undefined]
  for (;;) {
    const places = at.number > 0 ? [{ epoch: at.epoch, number: at.number + 1 }] : []
    const max = epochMax ?? at.epoch + EPOCHS_AHEAD
    for (let epoch = Math.max(at.epoch, max - EPOCHS_LOOKED_AT) + 1; epoch <= max; epoch++)
      if (!empty.has(epoch)) places.push({ epoch, number: 1 })
    let next: LogNumber | undefined
    const found = await Promise.all(places.map(look))
    for (const [i, each] of found.entries()) {
      const place = places[i] as LogNumber
      if (each !== undefined) [next, newest] = [place, each]
      else if (epochMax !== undefined && place.number === 1 && place.epoch < epochMax) empty.add(place.epoch)
    }
    if (next === undefined) return newest
    at = next
  }
}
