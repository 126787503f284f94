import type { SqlParams } from '../../engine/statements/sql-values.ts'
import type { CellOperation } from '../../service/operations.ts'

/** About what an operation's strings and blobs take in memory, in bytes. */
export function operationBytes(operation: CellOperation): number {
  switch (operation.op) {
    case 'sql':
      return operation.sql.length + paramsBytes(operation.params)
    case 'kv.put':
      return operation.key.length + operation.value.length
    case 'kv.mset':
      return operation.entries.reduce((sum, { key, value }) => sum + key.length + value.length, 0)
    case 'batch':
      return operation.operations.reduce((sum, each) => sum + operationBytes(each), 0)
    default:
      return 0
  }
}

function paramsBytes(params: SqlParams = []): number {
  let bytes = 0
  for (const value of Array.isArray(params) ? params : Object.values(params)) {
    if (typeof value === 'string') bytes += value.length
    else if (value instanceof Uint8Array) bytes += value.byteLength
  }
  return bytes
}
