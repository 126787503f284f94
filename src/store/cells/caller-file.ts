import { localFailure } from '../../backup/archive/backup-errors.ts'
import { isError } from '../../base/any-realm.ts'
import { CellError } from '../../errors.ts'

/** Which of a call's arguments names the file. */
type PathField = 'source' | 'target'

/** The path is wrong, and the machine is not. */
const OF_THE_PATH = new Set([
  'ENOENT',
  'EISDIR',
  'ENOTDIR',
  'EACCES',
  'EPERM',
  'EROFS',
  'ELOOP',
  'ENAMETOOLONG',
  'ENXIO',
])

/** What the file system said of a file that a caller has named, as a `CellError` if it is about the path or the room. */
export function callerFileError(error: unknown, field: PathField): unknown {
  if (!isError(error) || !('syscall' in error) || !('code' in error)) return error
  const code = String(error.code)
  if (OF_THE_PATH.has(code))
    return new CellError('invalid_request', `The file that ${field} names can't be used: ${code}.`, {
      field,
      cause: error,
    })
  if (localFailure(error) !== 'disk_full') return error
  return new CellError('disk_full', 'The disk is full; nothing of the file was kept.', { cause: error })
}
