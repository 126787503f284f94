import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { newCellId } from '../../src/base/files/store-paths.ts'
import type { Outcome } from '../../src/engine/commits/work-group.ts'
import { hasCommitBetween } from '../../src/engine/wal/wal-end.ts'
import type { CellOperation } from '../../src/service/operations.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { Batch } from '../../src/workers/node/dispatch/batch.ts'
import type { QueuedOperation } from '../../src/workers/node/dispatch/queued-operation.ts'
import type { BatchMessage } from '../../src/workers/node/processes/worker-process.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { BatchWorker, PARTS } from '../support/workers/batch-worker.ts'

type Told = QueuedOperation & { outcomes: Outcome[] }

function operationsOf(cells: Record<string, string[]>): Told[][] {
  return Object.entries(cells).map(([cellId, texts]) =>
    texts.map((sql) => {
      const told: Told = {
        cellId,
        accountId: cellId,
        operation: sql.startsWith('{') ? hranaOf(sql) : { op: 'sql', sql },
        bytes: 0,
        statementMs: 1_000,
        notAfter: 1_000,
        signal: undefined,
        crashes: 0,
        isSettled: false,
        outcomes: [],
        settle: (outcome) => {
          told.isSettled = true
          told.outcomes.push(outcome)
        },
      }
      return told
    }),
  )
}

/** A request of Hrana that ends its stream. */
function hranaOf(text: string): CellOperation {
  const hold = { id: `stream-${text.length}`, isOpen: false }
  return { op: 'request', route: 'hrana.pipeline', body: Buffer.from(text), hold }
}

const pipeline = (...texts: string[]) =>
  JSON.stringify({
    requests: [...texts.map((sql) => ({ type: 'execute', stmt: { sql } })), { type: 'close' }],
  })

/** What the node does with a worker that was killed after so many messages, and with the worker that comes after it. */
async function recover(
  place: string,
  cells: Told[][],
  messages: readonly BatchMessage[],
): Promise<BatchWorker> {
  const batch = new Batch(cells, 0)
  for (const message of messages) batch.take(message, 0, PARTS.get(message))
  const { provisional, notRun } = batch.lost()
  if (batch.finished !== undefined) expect(batch.finished.returned).toEqual(notRun)
  const next = new BatchWorker(place)
  const again = [...notRun]
  for (const { cellId, before, outcomes } of provisional) {
    // Where it is missing, another program has closed the cell: then nobody could tell.
    if (before !== undefined) expect(next.cells.files.hasLogFile(cellId)).toBe(true)
    const isCommitted =
      before === undefined || hasCommitBetween(before, next.cells.pool.open(cellId).walEnd())
    if (isCommitted) for (const [operation, outcome] of outcomes) operation.settle(outcome)
    else again.push(...outcomes.map(([operation]) => operation))
  }
  const rest = cells
    .map((operations) => operations.filter((each) => again.includes(each)))
    .filter(({ length }) => length > 0)
  const second = new Batch(rest, 0)
  next.onWrite = (messages) => {
    for (const message of messages) second.take(message, 0, PARTS.get(message))
  }
  if (rest.length > 0) await next.run(rest)
  return next
}

const SCHEMA = [
  'CREATE TABLE t (n)',
  'CREATE TABLE parent (id PRIMARY KEY)',
  'CREATE TABLE child (p REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED)',
  'CREATE TABLE one (a UNIQUE)',
  'INSERT INTO one VALUES (1)',
]
const insert = (n: number) => `INSERT INTO t VALUES (${n})`

const ALL_KINDS = [
  'SELECT 1',
  insert(1),
  insert(2),
  'SELECT count(*) FROM one',
  'INSERT INTO one VALUES (1)',
  insert(3),
  'INSERT OR ROLLBACK INTO one VALUES (1)',
  insert(4),
  'INSERT INTO one VALUES (2)',
]
/** Milliseconds of a batch. The clock goes on by one whenever it is asked. */
const UNLIMITED = Number.POSITIVE_INFINITY

/** The WALs below a folder, by their paths in it. */
function walsIn(folder: string): Map<string, Buffer> {
  const files = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const wals = files.filter((file) => file.endsWith('-wal'))
  return new Map(wals.map((file) => [file, fs.readFileSync(path.join(folder, file))]))
}

const EACH_BY_ITSELF = [insert(1), 'INSERT INTO child VALUES (9)', insert(2), insert(3)]
/** The WAL is moved into the database after each commit. */
const AFTER_EACH_COMMIT = { checkpointBytes: 1 }

test.each<[what: string, cells: string[][], keys: boolean, slice?: number, options?: StoreOptions]>([
  ['of one cell', [ALL_KINDS], false],
  ...Array.from({ length: 3 }, (_, i): [string, string[][], boolean, number] => [
    `that has time for a part of it (${i})`,
    [ALL_KINDS, [insert(1), insert(2)]],
    false,
    8 * i,
  ]),
  ['of one cell, where each commits by itself', [EACH_BY_ITSELF], true],
  ['that has time for a part of it, where each commits by itself', [EACH_BY_ITSELF], true, 12],
  [
    'of one cell, where each commits by itself and the WAL begins again after each',
    [EACH_BY_ITSELF],
    true,
    UNLIMITED,
    AFTER_EACH_COMMIT,
  ],
  [
    'of two cells, where each commits by itself and the WAL begins again after each',
    [EACH_BY_ITSELF, EACH_BY_ITSELF],
    true,
    UNLIMITED,
    AFTER_EACH_COMMIT,
  ],
  [
    'of several cells',
    [
      [insert(1), insert(2)],
      ['SELECT 1', insert(1), 'INSERT OR ROLLBACK INTO one VALUES (1)', insert(2)],
      [insert(1)],
    ],
    false,
  ],
  [
    'with pipelines of Hrana',
    [
      [
        insert(1),
        pipeline('BEGIN', insert(2), insert(3), 'COMMIT', insert(4)),
        pipeline('SELECT 1'),
        pipeline('BEGIN', 'INSERT INTO one VALUES (50)', 'ROLLBACK', 'INSERT INTO one VALUES (1)'),
        pipeline('SAVEPOINT a', insert(5), 'ROLLBACK TO a', insert(5), 'RELEASE a'),
        insert(6),
      ],
      [pipeline(insert(1)), pipeline('BEGIN', insert(2), 'COMMIT')],
    ],
    false,
  ],
  [
    'with a pipeline of Hrana, where each commits by itself',
    [[insert(1), pipeline('BEGIN', insert(2), 'COMMIT'), insert(3)]],
    true,
  ],
  [
    'of relaxed cells, of which the first one is closed before the second one is opened',
    [[insert(1)], [insert(1)]],
    false,
    UNLIMITED,
    { durability: 'relaxed', openCellsMax: 1 },
  ],
])(
  'a worker can be killed before and after all that it writes of a batch %s: each operation is answered once, with its own result, and its change is there once (invariants 1, 8)',
  async (_what, texts, keys, slice = UNLIMITED, options = {}) => {
    const home = tempDirectory('cellstore-kill')
    const clock = new FakeClock()
    const monotonic = () => {
      clock.advance(1)
      return FakeClock.prototype.monotonic.call(clock)
    }
    const ticking = Object.assign(clock, { monotonic })
    const first = new BatchWorker(path.join(home, 'first'), { clock: ticking, ...options }, undefined, {
      sliceMs: slice,
    })
    const ids = texts.map(() => newCellId())
    for (const id of ids) {
      first.cells.files.write(id)
      for (const text of SCHEMA) if (keys || !text.includes('DEFERRABLE')) first.sql(id, text)
    }
    const wanted = Object.fromEntries(texts.map((each, i) => [ids[i] as string, each]))
    const messages: BatchMessage[] = []
    /** The files as a kill would leave them, and how many messages have left by then. */
    const kills: { place: string; told: number }[] = []
    const copyFiles = () => {
      const place = path.join(home, `kill-${kills.length}`)
      // By another process: closing a file here would drop the locks on it (invariant 4).
      execFileSync('cp', ['-r', first.directory, place])
      const earlier = kills.at(-1)
      kills.push({ place, told: messages.length })
      copyWithoutFrames(place, earlier)
    }
    /** A WAL that has begun again since the copy before, as a kill leaves it before the first frame. */
    const copyWithoutFrames = (place: string, earlier: { place: string; told: number } | undefined) => {
      if (earlier === undefined) return
      const before = walsIn(earlier.place)
      for (const [file, wal] of walsIn(place)) {
        const header = wal.subarray(0, 32)
        if (before.get(file)?.subarray(0, 32).equals(header) !== false) continue
        const without = path.join(home, `kill-${kills.length}`)
        execFileSync('cp', ['-r', earlier.place, without])
        fs.writeFileSync(path.join(without, file), header)
        kills.push({ place: without, told: earlier.told })
      }
    }
    first.onWrite = (written) => {
      copyFiles()
      messages.push(...written)
      copyFiles()
    }
    await first.run(operationsOf(wanted))
    first.close()
    expect(messages.length).toBeGreaterThan(2)
    for (const { place, told } of kills) {
      for (const file of fs.readdirSync(place, { recursive: true, encoding: 'utf8' }))
        if (file.endsWith('-shm')) fs.rmSync(path.join(place, file))
      const cells = operationsOf(wanted)
      const next = await recover(place, cells, messages.slice(0, told))
      const ofMessage = `killed in ${path.basename(place)}, after ${told} messages, the last ${messages[told - 1]?.type}`
      for (const operations of cells) {
        for (const { operation, outcomes } of operations as (Told & { operation: { sql: string } })[]) {
          const fails = /one VALUES \(1\)|child/.test(operation.sql ?? '')
          expect(outcomes, `${ofMessage}: ${operation.sql}`).toMatchObject([{ ok: !fails }])
        }
        const { cellId } = operations[0] as Told
        const texts = operations.map(({ operation }) =>
          operation.op === 'request' ? String(operation.body) : (operation as { sql: string }).sql,
        )
        const inserted = new Set(texts.flatMap((text) => text.match(/INTO t VALUES \(\d+\)/g) ?? []))
        const rows = next.sql(cellId, 'SELECT n FROM t ORDER BY n')
        expect(rows, ofMessage).toEqual([...inserted].map((_, i) => ({ n: i + 1 })))
        expect(next.sql(cellId, 'SELECT * FROM one WHERE a = 50'), ofMessage).toEqual([])
      }
      next.close()
    }
  },
)

test('a worker can be killed before and after all that it writes of the COMMIT of a held transaction, also of one whose log begins again: its answer says what is there (invariants 1, 8)', async () => {
  for (const options of [{}, AFTER_EACH_COMMIT]) {
    const home = tempDirectory('cellstore-kill')
    const first = new BatchWorker(path.join(home, 'first'), options)
    const id = newCellId()
    first.cells.files.write(id)
    for (const text of SCHEMA) first.sql(id, text)
    const operation = (operation: CellOperation): Told => {
      const [[told]] = operationsOf({ [id]: [''] }) as [[Told]]
      return Object.assign(told, { operation })
    }
    const hold = { id: 'held', isOpen: true }
    await first.run([[operation({ op: 'hold', step: 'begin', hold: { ...hold, isOpen: false } })]])
    await first.run([[operation({ op: 'sql', sql: insert(1), hold })]])
    const commit = () => operation({ op: 'hold', step: 'commit', hold })
    const messages: BatchMessage[] = []
    const kills: { place: string; told: number }[] = []
    const copyFiles = () => {
      const place = path.join(home, `kill-${kills.length}`)
      execFileSync('cp', ['-r', first.directory, place])
      kills.push({ place, told: messages.length })
    }
    first.onWrite = (written) => {
      copyFiles()
      messages.push(...written)
      copyFiles()
    }
    await first.run([[commit()]])
    first.close()
    const found: number[] = []
    for (const { place, told } of kills) {
      for (const file of fs.readdirSync(place, { recursive: true, encoding: 'utf8' }))
        if (file.endsWith('-shm')) fs.rmSync(path.join(place, file))
      const asked = commit()
      const next = await recover(place, [[asked]], messages.slice(0, told))
      const rows = next.sql(id, 'SELECT n FROM t') as unknown[]
      found.push(rows.length)
      const lost = { ok: false, error: { code: 'transaction_lost' } }
      expect(asked.outcomes).toMatchObject([rows.length === 1 ? { ok: true } : lost])
      next.close()
    }
    expect(new Set(found)).toEqual(new Set([0, 1]))
  }
})
