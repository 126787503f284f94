import { localFailure } from '../../backup/archive/backup-errors.ts'
import { CellError } from '../../errors.ts'

/** The error of a cell that could not be made: `disk_full` if the disk has no room for its bytes, or for one more file. */
export function orNoRoom(error: unknown): unknown {
  if (localFailure(error) !== 'disk_full') return error
  return new CellError('disk_full', 'The disk is full. The cell was not created.', { cause: error })
}
