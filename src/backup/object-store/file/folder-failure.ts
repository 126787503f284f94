import { isError } from '../../../base/any-realm.ts'
import { CellError, type CellErrorCode } from '../../../errors.ts'

/** The errno of a failed file system call, or undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  if (!isError(error) || !('syscall' in error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Explains a failed file system call to users of a folder store. Neither the message nor the details hold a path. */
export function folderFailure(error: unknown): CellError {
  if (error instanceof CellError) return error
  const errno = errnoOf(error)
  const [code, what] = explain(errno)
  const message = errno === undefined ? what : `${what} (${errno})`
  return new CellError(code, `${message}.`, { cause: error })
}

function explain(errno: string | undefined): [CellErrorCode, string] {
  switch (errno) {
    case undefined:
      return ['object_store_error', 'The object store folder failed']
    case 'ENOSPC':
    case 'EDQUOT':
      return ['object_store_error', 'The object store folder has no space left']
    case 'EFBIG':
      return ['object_store_error', 'The object is larger than the file system of the object store allows']
    case 'ENAMETOOLONG':
      return [
        'object_store_error',
        'The object key is longer than the file system of the object store allows',
      ]
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return [
        'object_store_unavailable',
        'cellstore may not use the object store folder: check its owner, mode and mount',
      ]
    case 'ENOTDIR':
      return ['object_store_unavailable', 'The object store path is not a folder']
    default:
      return ['object_store_unavailable', 'The file system of the object store does not work now']
  }
}
