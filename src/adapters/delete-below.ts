import type { Cell } from '../index.ts'

/** Deletes all entries of a cell whose keys begin with a prefix, in one commit. */
export function deleteBelow(cell: Cell, prefix: string): Promise<void> {
  return cell.commit(() => {
    for (;;) {
      const { entries } = cell.kv.list({ prefix, values: false })
      if (entries.length === 0) return
      for (const { key } of entries) cell.kv.delete(key)
    }
  })
}
