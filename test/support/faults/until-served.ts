import { isCellError } from '../../../src/errors.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { until } from '../until.ts'

/** The cell, once it serves: one that the disk has failed under is checked first. */
export async function untilServed(cell: Cell): Promise<Cell> {
  await until(() => serves(cell), 'the cell serves')
  return cell
}

function serves(cell: Cell): boolean {
  try {
    cell.kv.get('k')
    return true
  } catch (error) {
    if (isCellError(error, 'cell_quarantined')) return false
    throw error
  }
}
