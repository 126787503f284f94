import type { RememberedObjectStore } from '../catalog/remembered-object-store.ts'
import { CellError } from '../errors.ts'
import type { PrefixEntry } from './prefix-entry.ts'
import type { StoreSettings } from './settings.ts'

/**
 * Compares the object store of a start with the one that the directory's backups went to so far. The same prefix may have
 * got another URL: its folder was moved, or its endpoint has another name.
 *
 * @throws `invalid_setting` if it is another one, unless that is asked for
 */
export async function checkRemembered(
  { url }: RememberedObjectStore,
  entry: PrefixEntry | undefined,
  { moveObjectStore, log }: StoreSettings,
): Promise<void> {
  if (url === undefined || url === entry?.store.url) return
  if (entry === undefined) {
    log.warn({ url }, "this directory's backups go to an object store, and it was opened without one")
    return
  }
  if (moveObjectStore || (await entry.isKnown())) return
  throw new CellError(
    'invalid_setting',
    `This directory's backups go to ${url}, and not to ${entry.store.url}. Start with the first one; or, to let all backups start from the beginning in the other one, once with --move-object-store (moveObjectStore in the library).`,
    { field: 'objectStore' },
  )
}
