import type { Limits } from '../base/options/limits.ts'

/** Epoch milliseconds of the last date that JavaScript knows. */
const TIME_MAX = 8.64e15

/** SQL that finds an entry which no put would have taken, in a database that was made elsewhere. */
export function wrongEntryQuery({ keyBytesMax, valueBytesMax }: Limits): string {
  return `
    SELECT 1 FROM main._cell_kv
    WHERE octet_length(key) NOT BETWEEN 1 AND ${keyBytesMax} OR instr(key, char(0)) > 0
      OR octet_length(value) > ${valueBytesMax}
      OR expires_at NOT BETWEEN 0 AND ${TIME_MAX} OR version < 0
    LIMIT 1`
}
