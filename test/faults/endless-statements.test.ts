import { expect, onTestFinished, test, vi } from 'vitest'
import { isCellError } from '../../src/errors.ts'
import { countOf } from '../support/counts.ts'
import { statementsOf } from '../support/request-bounds.ts'
import { ScriptedS3 } from '../support/s3/scripted-s3.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'

const ROUNDS = countOf('CELLSTORE_ENDLESS_ROUNDS')
const MIB = 1_048_576
const ENDLESS = 'WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r'
/** What a tenant hears whose statement never ends. */
const EXPECTED = ['statement_timeout', 'busy', 'rate_limited', 'cell_restoring'] as const

vi.setConfig({ testTimeout: 180_000 + ROUNDS * 60_000 })

/** Tenants that start an endless statement in each of their cells, and the next as soon as one was ended. */
class EndlessStatements {
  readonly #node: WorkerStore
  readonly #running: Promise<void>[]
  #isOver = false

  constructor(node: WorkerStore, cells: readonly string[]) {
    this.#node = node
    this.#running = cells.map((id) => this.#repeat(id))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#running)
  }

  async #repeat(id: string): Promise<void> {
    while (!this.#isOver) {
      await this.#node.service.execute(id, { op: 'sql', sql: ENDLESS }).catch((error) => {
        if (!EXPECTED.some((code) => isCellError(error, code))) throw error
      })
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }
}

/** An S3 that keeps uploads until somebody ends them. */
async function startS3(): Promise<{ s3: ScriptedS3; url: string }> {
  const s3 = await ScriptedS3.start()
  onTestFinished(() => s3.stop())
  vi.stubEnv('AWS_ACCESS_KEY_ID', s3.credentials.accessKeyId)
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', s3.credentials.secretAccessKey)
  onTestFinished(() => void vi.unstubAllEnvs())
  const query = new URLSearchParams({ endpoint: s3.endpoint, path_style: 'true' })
  return { s3, url: `s3://${s3.bucket}?${query}` }
}

/** Cells with a row for each change; two of them are sent in parts. */
async function fill({ service, store }: WorkerStore): Promise<string[]> {
  const cells = Array.from({ length: 6 }, () => store.createCell().id)
  for (const [i, id] of cells.entries()) {
    await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
    for (let part = 0; part < (i < 2 ? 10 : 1); part++)
      await service.execute(id, { op: 'sql', sql: `INSERT INTO t VALUES (randomblob(${MIB}))` })
  }
  return cells
}

test(`backups of all cells are stored while tenants send endless statements to their neighbours and to themselves: none is lost, and no upload is left (${ROUNDS} rounds)`, async () => {
  const { s3, url } = await startS3()
  const limits = { killsBurst: 100_000, killsPerMinute: 100_000 }
  const node = await openWorkerStore({
    objectStore: url,
    service: { workers: 2, bounds: statementsOf(300), limits },
  })
  const { service, store } = node
  const cells = await fill(node)
  const rows = new Map<string, number>(cells.map((id, i) => [id, i < 2 ? 10 : 1]))
  const neighbours = Array.from({ length: 2 }, () => store.createCell().id)

  /** Changes each cell, and stores all of them under the attack. */
  async function backUp(kind: 'snapshot' | 'incremental', attacked: readonly string[]): Promise<void> {
    for (const id of cells) {
      await service.execute(id, { op: 'sql', sql: 'INSERT INTO t VALUES (randomblob(1000))' })
      rows.set(id, (rows.get(id) as number) + 1)
    }
    const lost = node.lostWorkers.length
    const attack = new EndlessStatements(node, attacked)
    const made = await Promise.all(cells.map((id) => service.backups[kind](id))).finally(() => attack.stop())
    expect(node.lostWorkers.length).toBeGreaterThan(lost)
    expect([...s3.uploads.keys()]).toEqual([])
    for (const { version } of made) {
      const id = version.split('/')[1] as string
      const { tables } = await service.backups.verify(id, { version })
      expect(tables).toContainEqual({ name: 't', rows: rows.get(id) })
    }
  }

  for (let round = 0; round < ROUNDS; round++) {
    await backUp('snapshot', neighbours)
    await backUp('incremental', neighbours)
  }
  // Last, because these cells have to wait afterwards.
  await backUp('incremental', [...neighbours, ...cells])
  const leftOvers = () => filesBelow(node.directory).filter((file) => /spool\/|incoming/.test(file))
  await expect.poll(leftOvers).toEqual([])
})
