import type { LogNumber } from '../../versions/object-keys.ts'

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
