/** A store whose cells are open in child processes, as `serve` has them: commits many megabytes at once, backs them up, and commits half as many. */
import { toldToGo } from './told-to-go.ts'
import { openTracedNode } from './traced-node.ts'

const [, , root = '', rows = ''] = process.argv

await toldToGo()
const { store, service, close } = await openTracedNode(root, 1)
const { id } = store.createCell()
const run = (sql: string) => service.execute(id, { op: 'sql', sql })
await run('CREATE TABLE t (x)')
await insert(Number(rows))
await service.backups.snapshot(id)
await insert(Number(rows) / 2)
process.stdout.write('committed\n')
await close()

async function insert(count: number): Promise<void> {
  const counted = `WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT ${count})`
  await run(`INSERT INTO t ${counted} SELECT randomblob(1000) FROM r`)
}
