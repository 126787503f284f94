import * as z from 'zod'
import type { CellSource } from '../../backup/versions/backup-options.ts'
import { isCellId } from '../../base/files/store-paths.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import { cellNotFound } from '../../catalog/cell-registry.ts'
import { parseFields, text } from '../../service/json/fields.ts'
import { checkedByHand, noted } from '../../service/json/schema-notes.ts'
import { decodeTime, time } from '../../service/json/time.ts'
import type { CreatedCell } from '../../store/cells/cell-creations.ts'
import type { CreateCellOptions } from '../../store/cells/cell-directory.ts'
import { type AccountCall, asShown } from '../core/action.ts'

const sourceSchema = z.strictObject({
  cell_id: text,
  version: text.optional(),
  timestamp: time.optional(),
})

/** Checked apart from the body: an unknown field in it is refused also where those of the body are ignored. */
export const sourceField = noted(
  checkedByHand(z.unknown(), () => sourceSchema.nullable()),
  { description: 'The new cell gets the state of this cell of the account, also of a deleted one.' },
).optional()

/** @throws `invalid_request`, `cell_not_found` */
export function decodeSource(from: unknown): CellSource {
  const { cell_id: cellId, version, timestamp } = parseFields(sourceSchema, from, 'from')
  if (!isCellId(cellId)) throw cellNotFound()
  const at = timestamp === undefined ? undefined : decodeTime(timestamp, 'from.timestamp')
  return definedOnly({ cellId, version, timestamp: at })
}

/** Row 4 with a state of another cell. As of an import, its bytes are charged for, and count before there is a cell. */
export async function branchCell(
  { context, accountId, permit, requestId }: AccountCall,
  from: unknown,
  options: Pick<CreateCellOptions, 'name' | 'idempotency'>,
): Promise<CreatedCell> {
  const { storedBytes, store, service, backupCharges } = context
  const source = decodeSource(from)
  const charge = backupCharges.begin(accountId)
  const arrival = storedBytes?.arrival(accountId)
  let moved = 0
  try {
    return await service.branchCell({
      ...options,
      from: source,
      accountId,
      requestId,
      admit: () => storedBytes?.checkRoomForCell(accountId),
      permit: (bytes, cellId) => {
        permit?.check()
        moved = Math.max(moved, bytes)
        arrival?.take(cellId, bytes)
      },
      onProgress: ({ bytes }) => {
        moved = Math.max(moved, bytes)
      },
    })
  } catch (error) {
    throw asShown({ accountId, cell: store.findCell(source.cellId) }, error)
  } finally {
    charge.move(moved)
    arrival?.release()
    charge.release()
  }
}
