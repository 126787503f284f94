import { expect, test } from 'vitest'
import { ended, startChild } from '../support/child.ts'
import { countOf } from '../support/counts.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { seededRandom } from '../support/seed.ts'

const KILLS = countOf('CELLSTORE_KILLS')

test(
  `after kill -9 in a loop of writes every acknowledged one is there, and none by half (${KILLS} kills)`,
  async () => {
    const random = seededRandom()
    const test = await openTestCell()
    const { id } = test.cell
    test.cell.sql('CREATE TABLE t (n INTEGER PRIMARY KEY, b)')
    let next = 0
    for (let kill = 0; kill < KILLS; kill++) {
      await test.store.close()
      const acknowledged = await writeAndKill(test.directory, id, next, 1 + random.below(400))
      const { cell } = Object.assign(test, { cell: (await test.reopen()).openCell(id) })
      const rows = cell.sql('SELECT n FROM t ORDER BY n', [], { rowMode: 'array' }).rows.flat()
      expect(rows).toEqual(Array.from({ length: rows.length }, (_, i) => i))
      expect(rows.length).toBeGreaterThan(acknowledged)
      const entries = cell.sql('SELECT count(*) AS n FROM cell_kv').rows
      expect(entries).toEqual([{ n: rows.length }])
      expect(cell.kv.get(`k${acknowledged}`)).toBe(String(acknowledged))
      expect(cell.sql('PRAGMA integrity_check').rows).toEqual([{ integrity_check: 'ok' }])
      next = rows.length
    }
  },
  60_000 + KILLS * 5_000,
)

/** @returns the last number that was acknowledged */
async function writeAndKill(directory: string, id: string, from: number, lines: number): Promise<number> {
  const child = startChild('write-until-killed.ts', directory, id, String(from))
  let text = ''
  for await (const chunk of child.stdout) {
    text += String(chunk)
    if (text.split('\n').length > lines) break
  }
  child.kill('SIGKILL')
  await ended(child)
  const complete = text.slice(0, text.lastIndexOf('\n')).split('\n')
  return Number(complete.at(-1))
}
