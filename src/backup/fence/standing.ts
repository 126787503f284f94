import type { RememberedStart } from '../../catalog/remembered-object-store.ts'
import type { FenceTail } from './fence-tail.ts'
import type { HolderPlace } from './holder-state.ts'

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
