import type { ObjectStore } from '../backup/object-store/object-store.ts'
import type { RememberedObjectStore } from '../catalog/remembered-object-store.ts'
import { CellError } from '../errors.ts'
import type { StoreSettings } from './settings.ts'

/**
 * Compares the object store of a start with the one that the directory's backups went to so far.
 *
 * @throws `invalid_setting` if it is another one, unless that is asked for
 */
export function checkRemembered(
  { url }: RememberedObjectStore,
  objectStore: ObjectStore | undefined,
  { moveObjectStore, log }: StoreSettings,
): void {
  if (url === undefined || url === objectStore?.url) return
  if (objectStore === undefined) {
    log.warn({ url }, "this directory's backups go to an object store, and it was opened without one")
    return
  }
  if (moveObjectStore) return
  throw new CellError(
    'invalid_setting',
    `This directory's backups go to ${url}, and not to ${objectStore.url}. Start with the first one; or, to let all backups start from the beginning in the other one, once with --move-object-store (moveObjectStore in the library).`,
    { field: 'objectStore' },
  )
}
