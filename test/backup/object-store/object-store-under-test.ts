import type { Patience } from '../../../src/backup/object-store/call-deadline.ts'
import type { ObjectStore } from '../../../src/backup/object-store/object-store.ts'

/** An empty place for objects, and what this kind of store can promise. */
export interface StoreUnderTest {
  /** A store over the place; each call gives another one over the same. */
  open(patience?: Partial<Patience>): ObjectStore
  /** Leaves an upload of the key behind, as a process does that is killed in the middle of one. */
  strandUpload(key: string): Promise<void>
  /** Puts an object that holds its own key, by the shortest way there is. */
  fill(key: string): Promise<void>
  /** Text that no message may hold: folders, credentials. */
  secrets: string[]
  /** Whether a key is kept by one writer also against writers of other stores, for small objects and for large. */
  excludesOtherStores: { small: boolean; large: boolean }
  /** Whether unfinished uploads can be found and ended. */
  endsUploads: boolean
  dispose(): Promise<void>
}
