import { fileURLToPath } from 'node:url'
import { CellError, type CellErrorCode } from '../../errors.ts'

/**
 * Checks a path that a caller has given. An empty one would mean the working directory, and a URL would make a folder that is
 * called `file:`.
 *
 * @throws `invalid_request`, or the code
 */
export function checkPath(
  path: string,
  { field, code = 'invalid_request' }: { field: string; code?: CellErrorCode | undefined },
): void {
  if (typeof path !== 'string' || path === '' || path.includes('\0'))
    throw new CellError(code, `${field} must be a non-empty path without NUL.`, { field })
  if (/^file:/i.test(path))
    throw new CellError(code, `${field} must be a path, not a URL: ${meantBy(path)}.`, { field })
}

function meantBy(url: string): string {
  try {
    return `write ${fileURLToPath(url)}`
  } catch {
    return 'write it without file:'
  }
}
