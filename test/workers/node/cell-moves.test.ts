import { expect, test } from 'vitest'
import type { CellRecord } from '../../../src/catalog/cell-registry.ts'
import { hasCommitBetween, NO_WAL, type WalEnd } from '../../../src/engine/wal/wal-end.ts'
import { isCellError } from '../../../src/errors.ts'
import { seededRandom } from '../../support/seed.ts'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import { A, type Asked, BLOCK_MS, ScriptedWorkers } from '../../support/workers/scripted-workers.ts'

const ACCOUNTS = ['known', 'also known', 'new', 'also new']
const CELLS = 8
const STEPS = 4_000
const STEPS_TO_END = 2_000

const cellOf = (n: number) => n.toString(16).padStart(8, '0') + A.slice(8)
const accountOf = (cellId: string) =>
  ACCOUNTS[Number.parseInt(cellId.slice(0, 8), 16) % ACCOUNTS.length] as string

interface CellFile {
  /** The keys that committed transactions have put. */
  keys: string[]
  wal: WalEnd
}

/** How far a worker has come with a batch. */
interface Progress {
  cell: number
  firstIndex: number
  step: 'begin' | 'results' | 'commit' | 'tell'
}

/**
 * Accounts that come and go, slow statements, tasks, and workers that end at any moment: cells move all the time. The
 * workers here do what real ones do, over files that outlive them.
 */
class RandomNode {
  readonly random = seededRandom()
  readonly node = new ScriptedWorkers({
    count: 2,
    record: (cellId) => ({ accountId: accountOf(cellId) }) as CellRecord,
    limits: {
      blockMs: BLOCK_MS,
      sliceMs: 20,
      slowWorkerMs: 4_000,
      silentMs: 30_000,
      memoryMax: 1_000,
      killsPerMinute: 60,
      killsBurst: 1_000,
    },
  })
  readonly files = new Map(
    Array.from({ length: CELLS }, (_, n): [string, CellFile] => [cellOf(n), { keys: [], wal: NO_WAL }]),
  )
  readonly asked: { cellId: string; key: string; asked: Asked }[] = []
  readonly tasks: Promise<unknown>[] = []
  /** Of WALs. */
  #generations = 0
  readonly #progress = new WeakMap<object, Progress>()
  moves = 0
  kills = 0
  /** Nothing ends workers any more, and nobody asks. */
  isCalm = false

  async step(): Promise<void> {
    const { random } = this
    if (!this.isCalm) {
      if (random.chance(0.4)) this.#ask()
      if (random.chance(0.05)) this.#runTask()
      if (random.chance(0.01)) this.#end(random.pick(this.#live()))
    }
    for (const worker of this.#live()) if (random.chance(0.7)) this.#work(worker)
    await this.node.settle()
    this.#assertOneHasEach()
    if (random.chance(0.1)) await this.node.pass(random.below(BLOCK_MS * 2))
    if (random.chance(0.005)) await this.node.pass(3_000)
    this.#assertOneHasEach()
  }

  /** Invariant 2. */
  #assertOneHasEach(): void {
    for (const cellId of this.files.keys()) {
      const having = this.node.all.filter(({ isEnded, hasUsed }) => !isEnded && hasUsed.has(cellId))
      if (having.length > 1) throw new Error(`${having.length} workers have cell ${cellId}`)
    }
  }

  #live(): ScriptedWorker[] {
    return this.node.all.filter(({ isEnded }) => !isEnded)
  }

  #ask(): void {
    const cellId = cellOf(this.random.below(CELLS))
    const key = `key ${this.asked.length}`
    const told = { accountId: accountOf(cellId) }
    try {
      const asked = this.random.chance(0.5)
        ? this.node.sql(cellId, key, told)
        : this.node.put(cellId, key, told)
      this.asked.push({ cellId, key, asked })
    } catch (error) {
      if (!isCellError(error, 'rate_limited')) throw error
    }
  }

  #runTask(): void {
    const task = {
      task: this.random.pick(['collect-expired', 'quarantine-state'] as const),
      cellId: cellOf(this.random.below(CELLS)),
    }
    this.tasks.push(this.node.workers.runTask(task).catch((error) => error))
  }

  #end(worker: ScriptedWorker): void {
    this.kills++
    worker.end()
  }

  #work(worker: ScriptedWorker): void {
    if (worker.isKilled) {
      this.#end(worker)
      return
    }
    // As the real worker does, it answers this before it does anything else.
    for (const each of worker.tasks.slice())
      if (each.task.task === 'was-committed') {
        const { cellId, before } = each.task
        this.#answer(worker, each, before === undefined || hasCommitBetween(before, this.#file(cellId).wal))
      }
    const [task] = worker.tasks
    if (task !== undefined && (this.isCalm || this.random.chance(0.3))) this.#do(worker, task)
    const batch = worker.batches.at(-1)
    if (batch !== undefined && batch !== worker.doneBatch) this.#advance(worker, batch)
    else if (worker.isStopped) worker.end()
  }

  #do(worker: ScriptedWorker, each: ScriptedWorker['tasks'][number]): void {
    const { task, cellId } = each.task
    const batch = worker.batches.at(-1)
    const isRunning = batch !== worker.doneBatch && batch?.cells.some((cell) => cell.cellId === cellId)
    if (task !== 'close') {
      // A backup moves the WAL into the database.
      if (!isRunning) this.#file(cellId).wal = NO_WAL
      this.#answer(worker, each, undefined)
      return
    }
    if (isRunning) throw new Error('A worker is to close a cell that it is at work on')
    const isFree = this.isCalm || this.random.chance(0.8)
    if (isFree) {
      this.moves++
      this.#file(cellId).wal = NO_WAL
    }
    this.#answer(worker, each, isFree)
  }

  #answer(worker: ScriptedWorker, each: ScriptedWorker['tasks'][number], value: unknown): void {
    worker.tasks.splice(worker.tasks.indexOf(each), 1)
    each.resolve(value)
  }

  #file(cellId: string): CellFile {
    return this.files.get(cellId) as CellFile
  }

  /** One message about a batch. */
  #advance(worker: ScriptedWorker, batch: ScriptedWorker['batches'][number]): void {
    const progress = this.#progress.get(batch) ?? { cell: 0, firstIndex: 0, step: 'begin' }
    this.#progress.set(batch, progress)
    const cell = batch.cells[progress.cell]
    if (cell === undefined || (progress.step === 'begin' && progress.cell > 0 && this.random.chance(0.1))) {
      const rest = batch.cells.slice(progress.cell).flatMap(({ operations }) => operations).length
      worker.doneBatch = batch
      worker.say({
        type: 'done',
        returned: Array.from({ length: rest }, (_, n) => progress.firstIndex + n),
        spent: [],
      })
      return
    }
    const { operations, cellId } = cell
    const transaction = progress.cell + 1
    const keys = operations.map((each) => (each.op === 'sql' ? each.sql : (each as { key: string }).key))
    if (progress.step === 'begin') {
      worker.say({ type: 'started', index: progress.firstIndex })
      progress.step = 'results'
    } else if (progress.step === 'results') {
      worker.answer(
        Object.fromEntries(keys.map((key, n) => [progress.firstIndex + n, key])),
        transaction,
        this.#file(cellId).wal,
      )
      progress.step = 'commit'
    } else if (progress.step === 'commit') {
      const file = this.#file(cellId)
      file.keys.push(...keys)
      const isNew = file.wal === NO_WAL || this.random.chance(0.2)
      file.wal = isNew
        ? { salts: `${++this.#generations}`, frames: 1 }
        : { ...file.wal, frames: file.wal.frames + 1 }
      progress.step = 'tell'
    } else {
      worker.say({ type: 'committed', transaction })
      Object.assign(progress, {
        cell: progress.cell + 1,
        firstIndex: progress.firstIndex + keys.length,
        step: 'begin',
      })
    }
  }
}

test('whatever moves, and whichever worker ends meanwhile: no two workers have a cell, and each operation is done once or not at all (invariants 2 and 8)', async () => {
  const node = new RandomNode()
  await node.node.workers.start()
  for (let step = 0; step < STEPS; step++) await node.step()
  node.isCalm = true
  const isOpen = () => node.asked.some(({ asked }) => !asked.operation.isSettled)
  for (let step = 0; step < STEPS_TO_END && isOpen(); step++) await node.step()
  expect(isOpen()).toBe(false)
  await Promise.all(node.tasks)
  const counts = Map.groupBy(
    [...node.files.values()].flatMap(({ keys }) => keys),
    (key) => key,
  )
  for (const { cellId, key, asked } of node.asked) {
    const times = counts.get(key)?.length ?? 0
    if (asked.answer !== undefined) expect([cellId, key, times]).toEqual([cellId, key, 1])
    else expect(times).toBeLessThanOrEqual(1)
  }
  const answered = node.asked.filter(({ asked }) => asked.answer !== undefined).length
  expect(answered).toBeGreaterThan(node.asked.length / 2)
  expect(node.moves).toBeGreaterThan(5)
  expect(node.kills).toBeGreaterThan(20)
})
