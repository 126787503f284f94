import { type Clock, delay } from '../../base/clock.ts'
import { CellError, isCellError } from '../../errors.ts'
import {
  type CallOptions,
  type ObjectBody,
  type ObjectStore,
  objectExists,
} from '../object-store/object-store.ts'
import { fenceKey, fencesOf, fenceTicketKey } from '../versions/object-keys.ts'

/** Starts that met at one number look again at different times, up to so many milliseconds later. */
const LOOK_AGAIN_MS_MAX = 1_000
/** A ticket that stays for so many looks is of a start that was killed; one that does not come in as many never will. */
const LOOKS_MAX = 30

/**
 * Decides which of several starts may put the fence of an epoch, where the object store cannot refuse the second of two
 * puts. Each puts a ticket of its own and lists them: a start that finds its ticket alone goes on, and of several the one
 * with the first name waits until the others have withdrawn theirs. It is as good as the listing.
 *
 * @throws `object_exists` if another start has put the fence; `object_store_unavailable` if no listing shows the ticket
 */
export async function takeTicket(
  { store, clock, random }: { store: ObjectStore; clock: Clock; random: () => number },
  epoch: number,
  instance: string,
  body: ObjectBody,
  options: CallOptions,
): Promise<void> {
  const mine = fenceTicketKey(epoch, instance)
  let isPut = false
  let unlisted = 0
  for (let looks = 1; ; looks++) {
    const tickets = await ticketsOf(store, epoch, options)
    const others = tickets.filter((key) => key !== mine)
    if (isPut && others.length === 0 && tickets.length === 1) return
    const isTaken = others.includes(fenceKey(epoch))
    const isFirst = others.every((key) => mine < key)
    // An earlier try may have left it there: its put was stored and not confirmed, or what came after it failed.
    if ((isPut || tickets.includes(mine)) && (isTaken || !isFirst)) {
      await store.delete(mine, options)
      isPut = false
    }
    if (isTaken) throw objectExists()
    if (isPut && !tickets.includes(mine) && ++unlisted > LOOKS_MAX) {
      await store.delete(mine, options)
      throw notListed(store.url, mine)
    }
    if (looks > LOOKS_MAX) for (const key of others) await store.delete(key, options)
    if (!isPut && isFirst) {
      await putOnce(store, mine, body, options)
      isPut = true
    } else await delay(clock, random() * LOOK_AGAIN_MS_MAX)
  }
}

/** Nobody else puts this instance's ticket: if it is there, an earlier try put it. */
async function putOnce(
  store: ObjectStore,
  ticket: string,
  body: ObjectBody,
  options: CallOptions,
): Promise<void> {
  try {
    await store.put(ticket, body, options)
  } catch (error) {
    if (!isCellError(error, 'object_exists')) throw error
  }
}

function notListed(url: string, key: string): CellError {
  return new CellError(
    'object_store_unavailable',
    `${url} does not list what was just stored there (${key}), and without conditional writes its listing has to tell whether another node starts.`,
  )
}

async function ticketsOf(store: ObjectStore, epoch: number, options: CallOptions): Promise<string[]> {
  const keys: string[] = []
  for await (const { key } of store.list(fencesOf(epoch), options)) keys.push(key)
  return keys
}
