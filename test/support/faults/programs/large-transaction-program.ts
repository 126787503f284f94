/** A store whose cells are open in child processes, as `serve` has them: commits many megabytes at once, backs them up, and commits half as many. */
import { pathToFileURL } from 'node:url'
import { StoreCore } from '../../../../src/store/store-core.ts'
import { WorkerService } from '../../../../src/workers/node/worker-service.ts'
import { toldToGo } from './told-to-go.ts'

const [, , root = '', rows = ''] = process.argv
const objectStore = pathToFileURL(`${root}/objects`).href

await toldToGo()
const store = await StoreCore.openOrCreate(`${root}/data`, { objectStore })
const service = new WorkerService(store, {
  objectStore,
  workers: 1,
  waitMs: 30_000,
  answerBytesMax: 1_048_576,
  statementMs: 60_000,
  // Traced, everything takes long; no statement is to be ended for that.
  limits: { holdMs: 60_000, silentMs: 120_000 },
  sqlPolicy: 'trusted',
})
await service.start()
const { id } = store.createCell()
const run = (sql: string) => service.execute(id, { op: 'sql', sql })
await run('CREATE TABLE t (x)')
await insert(Number(rows))
await service.backup(id, 'snapshot')
await insert(Number(rows) / 2)
process.stdout.write('committed\n')
await service.close(60_000)
await store.close(AbortSignal.timeout(60_000))

async function insert(count: number): Promise<void> {
  const counted = `WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT ${count})`
  await run(`INSERT INTO t ${counted} SELECT randomblob(1000) FROM r`)
}
