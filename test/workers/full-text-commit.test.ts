import { expect, test } from 'vitest'
import type { CellOperation } from '../../src/service/operations.ts'
import { requestOf } from '../support/request-bounds.ts'
import { openWorkerStore } from '../support/worker-store.ts'

const sql = (text: string): CellOperation & { op: 'sql' } => ({ op: 'sql', sql: text })
const WORDS = `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 10000)
  SELECT group_concat(hex(randomblob(4)), ' ') FROM c`

test('a COMMIT that merges a full-text index for long is ended at its deadline, and nothing of it remains', async () => {
  const node = await openWorkerStore({ service: { sqlPolicy: 'trusted' }, store: { durability: 'relaxed' } })
  const cell = node.store.createCell().id
  await node.service.execute(cell, sql('CREATE VIRTUAL TABLE ft USING fts5(a)'))
  for (const [setting, value] of [
    ['automerge', 0],
    ['crisismerge', 1_999],
  ])
    await node.service.execute(cell, sql(`INSERT INTO ft(ft, rank) VALUES ('${setting}', ${value})`))
  const insert = sql(`INSERT INTO ft ${WORDS}`)
  for (let segment = 0; segment < 150; segment++) await node.service.execute(cell, insert)
  await node.service.execute(cell, sql("INSERT INTO ft(ft, rank) VALUES ('crisismerge', 16)"))
  const merging = node.service.execute(cell, requestOf('sql', { sql: insert.sql, timeout_ms: 100 }))
  await expect(merging).rejects.toMatchObject({ code: 'statement_timeout', details: { limit: 100 } })
  const { rows } = await node.service.execute(cell, sql('SELECT count(*) AS n FROM ft'))
  expect(rows).toEqual([{ n: 150 }])
  expect(node.lostWorkers.map(({ fields }) => fields['reason'])).toEqual(['timeout'])
})
