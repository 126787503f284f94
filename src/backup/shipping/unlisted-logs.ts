import type { LogNumber } from '../versions/object-keys.ts'

/** Epochs after the last known one in which an object is looked for, by a node that has no epoch itself. */
export const EPOCHS_AHEAD = 4
const PARALLEL_LOOKS = 16

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
    for (let epoch = at.epoch + 1; epoch <= (epochMax ?? at.epoch + EPOCHS_AHEAD); epoch++)
      if (!empty.has(epoch)) places.push({ epoch, number: 1 })
    let next: LogNumber | undefined
    for (let i = 0; i < places.length; i += PARALLEL_LOOKS) {
      const some = places.slice(i, i + PARALLEL_LOOKS)
      const found = await Promise.all(some.map(look))
      for (const [j, each] of found.entries()) {
        const place = some[j] as LogNumber
        if (each !== undefined) [next, newest] = [place, each]
        else if (epochMax !== undefined && place.number === 1 && place.epoch < epochMax)
          empty.add(place.epoch)
      }
    }
    if (next === undefined) return newest
    at = next
  }
}
