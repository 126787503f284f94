import type { CellRecord } from '../../catalog/cell-registry.ts'
import { CellError } from '../../errors.ts'
import { Query } from '../../service/requests/query.ts'
import type { ExportedFile } from '../../store/cells/cell-export.ts'
import type { ImportCellOptions } from '../../store/cells/cell-imports.ts'
import { FileBody, SQLITE_TYPE } from '../body/file-body.ts'
import { type Answer, type Call, type CellCall, cellAction, ofAccount } from '../core/action.ts'
import { whileConnected } from '../core/http-message.ts'
import { IDEMPOTENCY_HEADER } from '../core/idempotency.ts'
import type { FileCharge } from '../quotas/backup-charges.ts'
import { encodeCell } from './cell-actions.ts'
import { logCellChange } from './change-log.ts'

/** More time for every export, whatever its rate. */
const SLOW_START_MS = 60_000

const MIB_FREE: FileCharge = { move: () => {}, release: () => {} }

/** The cell as one SQLite file. It is copied first: a client that reads slowly holds up nobody. */
export const exportCell = cellAction(async (call) => {
  const { context, accountId, cellId } = call
  const charge = accountId === undefined ? MIB_FREE : context.backupCharges.begin(accountId)
  let exported: ExportedFile
  let hasBegun = false
  const permit = {
    check() {
      call.permit?.check()
      hasBegun = true
    },
  }
  try {
    // A client that goes away ends its export: nobody else could take the file.
    exported = await whileConnected(call.request, (signal) =>
      context.service.exportCell(cellId, { ...progressOf(call), signal, permit }),
    )
  } catch (error) {
    if (hasBegun) charge.move(context.store.databaseBytes(cellId))
    charge.release()
    throw error
  }
  const { path, sizeBytes, remove } = exported
  charge.move(sizeBytes)
  logCellChange(call, 'a cell is exported', cellId, { sizeBytes })
  const file = new FileBody({
    path,
    length: sizeBytes,
    check: () => call.permit?.check(),
    deadline: accountId === undefined ? undefined : deadlineOf(call, sizeBytes),
    done: async () => {
      charge.release()
      await remove()
    },
  })
  const name = `attachment; filename="${cellId}.db"`
  return { status: 200, file, headers: { 'Content-Type': SQLITE_TYPE, 'Content-Disposition': name } }
})

/** The disk has room for few copies: a client that takes one slowly would keep others from theirs. */
function deadlineOf({ context: { store, limits } }: CellCall, bytes: number) {
  return { clock: store.clock, ms: SLOW_START_MS + (bytes / limits.exportBytesPerSecond) * 1_000 }
}

/** The owner sees how far it is. */
function progressOf({ accountId, request: { onProgress } }: CellCall) {
  if (accountId !== undefined || onProgress === undefined) return {}
  return {
    onProgress: (bytes: number, total: number) => onProgress({ phase: 'read', bytes, total }),
  }
}

/** Row 4 with a database as its body: the account's new cell has its content. */
export async function importCell(call: Call): Promise<Answer> {
  const { accountId } = ofAccount(call)
  const { context, request } = call
  if (request.header(IDEMPOTENCY_HEADER) !== undefined) {
    throw new CellError(
      'idempotency_not_supported',
      'An import takes no Idempotency-Key. Give the cell a name: a second import of it is refused then.',
    )
  }
  const name = new Query(request.query, ['name']).text('name')
  // Its body comes once only: a refusal by what is no longer so could not be taken back.
  await context.cluster?.catchUp()
  call.permit?.check()
  const charge = context.backupCharges.begin(accountId)
  const arrival = context.storedBytes?.arrival(accountId)
  try {
    const bytesMax = room(call, accountId)
    const permit = (bytes: number, cellId: string) => {
      call.permit?.check()
      arrival?.take(cellId, bytes)
    }
    const id = await receive(call, { accountId, name, bytesMax, permit }, charge)
    const record = context.store.findCell(id) as CellRecord
    const headers = { Location: `${request.mount}/v1/databases/${id}` }
    return { status: 201, json: JSON.stringify(encodeCell(record)), headers }
  } finally {
    arrival?.release()
    charge.release()
  }
}

/** @returns the cell's id */
export async function receive(
  call: Call,
  options: ImportCellOptions & { bytesMax: number },
  charge: FileCharge = MIB_FREE,
): Promise<string> {
  const { context, request } = call
  const { bytesMax } = options
  const { contentLength } = request
  if (contentLength !== undefined && contentLength > bytesMax) throw tooLarge(bytesMax)
  let received = 0
  try {
    const onBytes = (bytes: number) => {
      received = bytes
    }
    const id = await whileConnected(request, (signal) =>
      context.service.importCell(request.stream(), { ...options, signal, onBytes }),
    )
    logCellChange(call, 'a cell is imported', id, { sizeBytes: received })
    return id
  } finally {
    charge.move(received)
  }
}

/** Bytes that an account may import. @throws `quota_exceeded` */
function room({ context }: Call, accountId: string): number {
  const { storedBytes, limits } = context
  if (storedBytes === undefined) return limits.importBytesMax
  storedBytes.checkRoomForCell(accountId)
  return Math.min(limits.importBytesMax, storedBytes.roomOf(accountId))
}

function tooLarge(limit: number): CellError {
  const message = `The database is larger than ${limit} bytes (http.importBytesMax, or what is left of the account's quota).`
  return new CellError('body_too_large', message, { limit })
}
