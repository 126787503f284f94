import path from 'node:path'
import { CellStore } from '../../../src/index.ts'
import type { Row } from '../results.ts'
import { growthRow, microseconds, scattered } from './measured.ts'

/** A store that gets more and more cells with an entry each. It has up to a thousand open at a time. */
export async function growCells(
  directory: string,
  { rounds, turnMs, cells }: { rounds: number; turnMs: number; cells: readonly number[] },
): Promise<Row[]> {
  const data = path.join(directory, 'cells')
  let store = await CellStore.create(data)
  const ids: string[] = []
  const rows: Row[] = []
  let changes = 0
  const make = () => {
    const cell = store.createCell()
    cell.kv.put('key', 'v'.repeat(100))
    ids.push(cell.id)
  }
  try {
    for (const size of cells) {
      const grown = { at: size, of: 'cells' } as const
      // The last ones are measured, in parts of a round.
      const measured = Math.min(size - ids.length, 1_000)
      while (ids.length < size - measured) make()
      const part = Math.max(1, Math.floor(measured / rounds))
      const made = await growthRow('a cell made, with a durable put', 'µs', grown, rounds, async () => {
        const started = performance.now()
        for (let i = 0; i < part; i++) make()
        return ((performance.now() - started) * 1_000) / part
      })
      while (ids.length < size) make()
      const random = (i: number) => store.openCell(ids[scattered(i, size)] as string)
      const works: Record<string, (i: number) => unknown> = {
        'kv.get in a random cell': (i) => random(i).kv.get('key'),
        'durable kv.put in a random cell': (i) => random(i).kv.put('key', `value ${changes++}`),
        'a page of up to 100 cells': () => store.cells({ limit: 100 }),
      }
      rows.push(made)
      for (const [what, run] of Object.entries(works))
        rows.push(await growthRow(what, 'µs', grown, rounds, () => microseconds(turnMs, run)))
      const reopening = await growthRow('opening the store', 'ms', grown, rounds, async () => {
        await store.close()
        const started = performance.now()
        store = await CellStore.open(data)
        return performance.now() - started
      })
      rows.push(reopening)
    }
    return rows
  } finally {
    await store.close()
  }
}
