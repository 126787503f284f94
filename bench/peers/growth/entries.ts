import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { type Cell, CellStore } from '../../../src/index.ts'
import type { Row } from '../results.ts'
import { growthRow, microseconds, scattered } from './measured.ts'

const AT_ONCE = 10_000
const EXPIRING = 10_000
const EXPIRE_AFTER_MS = 1_000
const VALUE = 'v'.repeat(90)
const keyOf = (i: number) => `key:${String(i).padStart(9, '0')}`
const EXPIRY_COUNT =
  'SELECT count(*) AS count FROM _cell_kv INDEXED BY _cell_kv_expiry WHERE expires_at IS NOT NULL'

/** One cell that gets more and more entries, and as many rows of a table. */
export async function growEntries(
  directory: string,
  { rounds, turnMs, entries }: { rounds: number; turnMs: number; entries: readonly number[] },
): Promise<Row[]> {
  const store = await CellStore.create(path.join(directory, 'entries'), {
    limits: { cellBytesMax: 100_000_000_000 },
  })
  const cell = store.createCell()
  const { kv } = cell
  cell.sql('CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, city TEXT)')
  const select = cell.prepare('SELECT id, name, age, city FROM users WHERE id = ?')
  const rows: Row[] = []
  let has = 0
  let changes = 0
  try {
    for (const size of entries) {
      const grown = { at: size, of: 'entries' } as const
      for (; has < size; has += AT_ONCE) addTo(cell, has, Math.min(AT_ONCE, size - has))
      const works: Record<string, (i: number) => unknown> = {
        'kv.get': (i) => kv.get(keyOf(scattered(i, size))),
        'kv.put, durable': (i) => kv.put(keyOf(scattered(i, size)), `${VALUE}${changes++}`),
        // So that a page begins anywhere: a prefix of all but the last two digits.
        'kv.list of up to 100 entries': (i) =>
          kv.list({ prefix: keyOf(scattered(i, size)).slice(0, -2), limit: 100 }),
        'select by key, prepared': (i) => select.get(scattered(i, size)),
      }
      for (const [what, run] of Object.entries(works))
        rows.push(await growthRow(what, 'µs', grown, rounds, () => microseconds(turnMs, run)))
      rows.push(
        await growthRow('collection of an expired entry', 'µs', grown, rounds, () => collection(cell)),
      )
    }
    return rows
  } finally {
    await store.close()
  }
}

function addTo(cell: Cell, from: number, count: number): void {
  const insert = cell.prepare('INSERT INTO users VALUES (?, ?, ?, ?)')
  cell.transaction(() => {
    for (let i = from; i < from + count; i++) {
      cell.kv.put(keyOf(i), VALUE)
      insert.run([i, `name ${i}`, i % 90, `city ${i % 10}`])
    }
  })
}

/** Entries all over the cell expire before collection, which comes of its own, a second after the first. @returns microseconds of each */
async function collection(cell: Cell): Promise<number> {
  cell.transaction(() => {
    for (let i = 0; i < EXPIRING; i++)
      cell.kv.put(`${keyOf(scattered(i, 1e9))}:expiring`, VALUE, { ttlMs: EXPIRE_AFTER_MS })
  })
  const left = () => (cell.get(EXPIRY_COUNT) as { count: number }).count
  let begun = performance.now()
  for (let count = left(); count > 0; count = left()) {
    if (count === EXPIRING) begun = performance.now()
    await turnOfTheLoop()
  }
  return ((performance.now() - begun) * 1_000) / EXPIRING
}
