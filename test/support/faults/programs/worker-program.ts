/**
 * A store whose cells are open in child processes, as `serve` has them: writes to several cells at once, backs up,
 * restores, deletes, and closes the store in between; and says what was acknowledged.
 */
import { StorePaths } from '../../../../src/base/files/store-paths.ts'
import { readOwner } from '../../../../src/catalog/directory-lock.ts'
import type { BatchableOperation } from '../../../../src/service/operations.ts'
import { Random } from '../../random.ts'
import { say } from '../acknowledgements.ts'
import { entryOperations, LEDGER_SCHEMA, steadyNumber } from '../ledger.ts'
import { toldToGo } from './told-to-go.ts'
import { openTracedNode, type TracedNode } from './traced-node.ts'

const [, , root = '', seed = '', steps = ''] = process.argv
const random = new Random(Number(seed))
const CELLS_MAX = 5

const cells = new Map<string, { id: string; versions: string[] }>()
let made = 0
let next = 0

function open(): Promise<TracedNode> {
  // Small, so that checkpoints, the pool and the commit log have much to do.
  return openTracedNode(root, 2, { checkpointBytes: 65_536, commitLogBytes: 524_288, openCellsMax: 4 })
}

async function create(): Promise<void> {
  const cell = `cell ${made++}`
  say({ began: 'create', cell })
  const { id } = opened.store.createCell({ name: cell })
  cells.set(cell, { id, versions: [] })
  say({ done: cell, id })
  say({ began: 'schema', cell })
  await run(
    id,
    LEDGER_SCHEMA.map((sql) => ({ op: 'sql', sql })),
  )
  say({ done: cell })
}

async function write(cell: string): Promise<void> {
  const n = steadyNumber(next++)
  say({ began: 'write', cell, n })
  await run(idOf(cell), entryOperations(n))
  say({ done: cell })
}

async function run(id: string, operations: BatchableOperation[]): Promise<void> {
  await opened.service.execute(id, { op: 'batch', operations })
}

/** On several cells at once, some writes each. */
async function writeSome(names: readonly string[]): Promise<void> {
  await Promise.all(names.flatMap((cell) => Array.from({ length: 1 + random.below(5) }, () => write(cell))))
}

/** Its cells go on in another worker, while its commit log is still there. */
async function killOneWhileWriting(names: readonly string[]): Promise<void> {
  const writing = writeSome(names)
  const { workers = [] } = readOwner(new StorePaths(`${root}/data`)) ?? {}
  const { pid } = random.pick(workers)
  await new Promise(setImmediate)
  process.kill(pid, 'SIGKILL')
  await writing
  await writeSome(names)
}

async function backUp(cell: string): Promise<void> {
  const kind = random.chance(0.4) ? 'snapshot' : 'incremental'
  const { version } = await opened.service.backups[kind](idOf(cell))
  say({ backedUp: cell, version })
  cells.get(cell)?.versions.push(version)
}

async function restore(cell: string): Promise<void> {
  const { id, versions } = cells.get(cell) as { id: string; versions: string[] }
  if (versions.length === 0) return
  const version = random.pick(versions)
  say({ began: 'restore', cell, version })
  await opened.service.backups.restore(id, { version })
  say({ done: cell })
}

async function remove(cell: string): Promise<void> {
  say({ began: 'delete', cell })
  await opened.service.deleteCell(idOf(cell))
  say({ done: cell })
  cells.delete(cell)
}

async function step(): Promise<void> {
  const names = [...cells.keys()]
  if (names.length < 2 || (names.length < CELLS_MAX && random.chance(0.05))) return await create()
  const [cell, other] = [random.pick(names), random.pick(names)]
  const dice = random.below(100)
  if (dice < 5) return await killOneWhileWriting(names)
  if (dice < 70) return await writeSome(names.filter(() => random.chance(0.5)))
  if (dice < 85) {
    const backup = backUp(cell)
    if (other !== cell) await writeSome([other])
    return await backup
  }
  if (dice < 92) return await restore(cell)
  if (dice < 94 && names.length > 2) return await remove(cell)
  if (dice < 97) {
    await opened.close()
    say({ closed: true })
    opened = await open()
  }
}

function idOf(cell: string): string {
  return cells.get(cell)?.id ?? ''
}

await toldToGo()
let opened = await open()
for (let i = 0; i < Number(steps); i++) await step()
await opened.close()
say({ closed: true })
