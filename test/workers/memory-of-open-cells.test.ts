import { expect, test } from 'vitest'
import { openWorkerStore } from '../support/worker-store.ts'

const MIB = 1_048_576

test('what the open cells of an account keep in memory ends no worker, although each of its statements is cheap', async () => {
  const limits = { memoryMax: 256 * MIB, blockMs: 60_000 }
  const { store, service, log } = await openWorkerStore({ service: { workers: 1, limits } })
  // Prepared, each takes 2.6 MB, and the cell keeps both.
  const texts = [1, 2].map((n) => `SELECT ${n} WHERE ${n} IN (${'1,'.repeat(29_900)}${n})`)
  for (let cell = 0; cell < 32; cell++) {
    const { id } = store.createCell()
    for (const sql of texts) await service.execute(id, { op: 'sql', sql })
  }
  expect(log.filter(({ message }) => message.startsWith('a worker has ended'))).toEqual([])
})
