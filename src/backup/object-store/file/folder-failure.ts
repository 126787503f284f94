import { CellError, type CellErrorCode } from '../../../errors.ts'

/** The errno of a failed file system call, or undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** What a failed file system call means to users of a folder store. Neither message nor details hold a path. */
export function folderFailure(error: unknown): CellError {
  if (error instanceof CellError) return error
  const errno = errnoOf(error)
  const [code, message] = explain(errno)
  return new CellError(code, errno === undefined ? message : `${message} (${errno})`, { cause: error })
}

function explain(errno: string | undefined): [CellErrorCode, string] {
  switch (errno) {
    case undefined:
      return ['object_store_error', 'The folder of the object store failed.']
    case 'ENOSPC':
    case 'EDQUOT':
      return ['object_store_error', 'No space is left in the folder of the object store.']
    case 'EFBIG':
      return ['object_store_error', 'The object is larger than the file system of the object store takes.']
    case 'ENAMETOOLONG':
      return [
        'object_store_error',
        'The object key is longer than the file system of the object store takes.',
      ]
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return [
        'object_store_unavailable',
        'The folder of the object store can not be used: check its owner, its mode and its mount.',
      ]
    case 'ENOTDIR':
      return ['object_store_unavailable', 'The folder of the object store is not a folder.']
    default:
      return ['object_store_unavailable', 'The folder of the object store can not be used now.']
  }
}
