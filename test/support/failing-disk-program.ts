/**
 * A cell on a disk whose fsync of the log fails once: puts rows until one is refused, waits until the cell serves again by
 * itself, and says on one line what it saw. Run under strace, which makes the fsync fail.
 */
import path from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { writeNewFile } from '../../src/base/files/durable-files.ts'
import { CellPaths } from '../../src/base/files/store-paths.ts'
import { silentLog } from '../../src/base/log.ts'
import { DEFAULT_LIMITS } from '../../src/base/options/limits.ts'
import { CellPool } from '../../src/engine/cell-pool.ts'
import { ReservedSchema } from '../../src/engine/reserved-schema.ts'
import { isCellError } from '../../src/errors.ts'

const [, , directory = ''] = process.argv
const ID = 'cell'
const paths = (id: string) => new CellPaths(directory, path.join(directory, `${id}.db`))
writeNewFile(paths(ID).database, new ReservedSchema('CREATE TABLE t (a);').image())
const settings = {
  durability: 'full',
  sqlPolicy: 'trusted',
  limits: DEFAULT_LIMITS,
  pageCacheBytes: 65_536,
  checkpointBytes: 4_194_304,
} as const
const pool = new CellPool(
  { cellsMax: 4 },
  {
    paths,
    settings: () => settings,
    hooks: () => ({}),
    beforeOpen: () => {},
    missing: () => new Error('missing') as never,
  },
  { clock: systemClock, log: silentLog },
)

function insert(a: number): boolean {
  try {
    pool.open(ID).sql('INSERT INTO t VALUES (?)', [a])
    return true
  } catch (error) {
    if (isCellError(error, 'cell_quarantined')) return false
    throw error
  }
}

const acknowledged: number[] = []
let row = 0
while (insert(++row)) acknowledged.push(row)
const refused = row
const { reason } = pool.quarantine.state(ID) ?? {}
while (pool.quarantine.state(ID) !== undefined) await new Promise((resolve) => setTimeout(resolve, 20))
const found = pool.open(ID).sql('SELECT a FROM t ORDER BY a', [], { rowMode: 'array' }).rows.flat()
for (let i = 0; i < 5; i++) if (insert(++row)) acknowledged.push(row)
const after = pool.open(ID).sql('SELECT a FROM t ORDER BY a', [], { rowMode: 'array' }).rows.flat()
pool.closeAll()
process.stdout.write(`${JSON.stringify({ acknowledged, refused, reason, found, after })}\n`)
