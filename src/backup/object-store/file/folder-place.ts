import fs from 'node:fs'
import path from 'node:path'
import { isError } from '../../../base/any-realm.ts'
import { CellError } from '../../../errors.ts'

/**
 * Checks that a folder that does not exist yet can be made: otherwise a start would wait for it, as for an object store that
 * does not answer. Leaves nothing behind.
 *
 * @throws `invalid_setting`
 */
export function assertFolderPossible(folder: string): void {
  if (fs.existsSync(folder)) return
  let missing = folder
  while (!fs.existsSync(path.dirname(missing))) missing = path.dirname(missing)
  try {
    fs.mkdirSync(missing)
    fs.rmdirSync(missing)
  } catch (cause) {
    // Another process has just made it, or filled it.
    if (fs.existsSync(missing)) return
    const why = isError(cause) && 'code' in cause ? ` (${String(cause.code)})` : ''
    throw new CellError(
      'invalid_setting',
      `The object store cannot be the folder ${folder}: it does not exist, and it cannot be made${why}.`,
      { field: 'objectStore', cause },
    )
  }
}
