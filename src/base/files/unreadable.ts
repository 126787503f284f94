import { isError } from '../any-realm.ts'

/** These refuse every file alike: the machine has no room, no memory or no descriptors left, or may not write to the disk. */
const OF_THE_MACHINE = new Set(['ENOSPC', 'EDQUOT', 'ENOMEM', 'EMFILE', 'ENFILE', 'EROFS'])

/**
 * Whether an error says that files of one cell cannot be read or written: a disk with a bad block (`EIO`), a folder that the
 * system refuses. Such a cell is unreadable: it is neither lost nor damaged, and holds up no other.
 */
export function isUnreadable(error: unknown): error is NodeJS.ErrnoException {
  if (!isError(error) || !('syscall' in error) || !('code' in error)) return false
  return !OF_THE_MACHINE.has(String(error.code))
}
