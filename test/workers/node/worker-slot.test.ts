import { expect, test } from 'vitest'
import { NO_WAL } from '../../../src/engine/wal/wal-end.ts'
import type { QueuedOperation } from '../../../src/workers/node/dispatch/queued-operation.ts'
import type { BatchMessage, WorkerProcess } from '../../../src/workers/node/processes/worker-process.ts'
import { type LostWorker, WorkerSlot } from '../../../src/workers/node/processes/worker-slot.ts'
import { FakeClock } from '../../support/fake-clock.ts'

/** A worker that does nothing by itself. */
class StubWorker {
  readonly answered = () => Promise.resolve()
  readonly ready = Promise.resolve()
  readonly isReady = true
  readonly hasTasks = false
  onBatch: ((message: BatchMessage) => void) | undefined
  /** What it was asked, in order. */
  readonly asked: string[] = []
  /** What it says of any transaction. */
  wasCommitted = false
  readonly #ended = Promise.withResolvers<void>()
  readonly ended = this.#ended.promise

  runBatch(cells: readonly { cellId: string }[]): void {
    this.asked.push(`batch ${cells.map(({ cellId }) => cellId)}`)
  }

  runTask({ task, cellId }: { task: string; cellId: string }): Promise<unknown> {
    this.asked.push(`${task} ${cellId}`)
    return Promise.resolve(this.wasCommitted)
  }

  kill(): void {}

  async end(): Promise<void> {
    this.#ended.resolve()
    await turns()
  }

  get asWorker(): WorkerProcess {
    return this as unknown as WorkerProcess
  }
}

function operation(cellId: string): QueuedOperation & { settled: unknown[] } {
  const settled: unknown[] = []
  return {
    cellId,
    accountId: cellId,
    operation: { op: 'sql', sql: 'SELECT 1' },
    bytes: 8,
    statementMs: 5_000,
    notAfter: Number.POSITIVE_INFINITY,
    signal: undefined,
    crashes: 0,
    isSettled: false,
    settled,
    settle(outcome) {
      this.isSettled = true
      settled.push(outcome)
    },
  }
}

function newSlot() {
  const lost: LostWorker[] = []
  const clock = new FakeClock()
  const bounds = { operationsMax: 10, operationsPerCellMax: 10, bytesMax: 1_000 }
  const context = {
    clock,
    bounds,
    record: () => undefined,
    isPaused: () => false,
    charged: (cellId: string) => operation(cellId),
    sliceMs: 20,
    requeue: () => {},
    onSlow: () => {},
  }
  return { clock, lost, slot: new WorkerSlot(context, (_slot, each) => lost.push(each)) }
}

async function turns(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
}

test('a statement that has run to its end while its worker was being ended is not at fault, and its transaction is asked for (invariant 8)', async () => {
  const { slot, lost } = newSlot()
  const worker = new StubWorker()
  slot.use(worker.asWorker)
  const slow = operation('x')
  slot.add(slow)
  await turns()
  worker.onBatch?.({ type: 'started', index: 0 })
  slot.kill('held-up')
  // Its results and its COMMIT come before the signal does.
  worker.onBatch?.({ type: 'results', outcomes: [[0, 'result']], transaction: { number: 1, before: NO_WAL } })
  await worker.end()
  expect(lost).toMatchObject([{ reason: 'held-up', statement: undefined, notRun: [] }])
  expect(lost[0]?.provisional).toMatchObject([{ cellId: 'x', before: NO_WAL }])
})

test.each([
  ['committed', true, [{ ok: true, value: 'result' }]],
  ['not committed', false, []],
] as const)(
  'a transaction that was perhaps committed is asked for by the slot that has the cell now, before it runs anything else on it: it was %s',
  async (_what, wasCommitted, settled) => {
    const { slot, lost } = newSlot()
    const worker = new StubWorker()
    slot.use(worker.asWorker)
    const first = operation('x')
    slot.add(first)
    await turns()
    worker.onBatch?.({
      type: 'results',
      outcomes: [[0, 'result']],
      transaction: { number: 1, before: NO_WAL },
    })
    await worker.end()
    const next = newSlot().slot
    for (const each of lost[0]?.provisional ?? []) next.resolve(each)
    next.add(operation('x'))
    const other = Object.assign(new StubWorker(), { wasCommitted })
    next.use(other.asWorker)
    await turns()
    expect(other.asked.slice(0, 2)).toEqual(['was-committed x', 'batch x'])
    expect(first.settled).toEqual(settled)
  },
)

test('a worker that was quiet gets an operation at once, and not after all else that this turn of the event loop has to do; after a batch those of a turn share the next one', async () => {
  const { slot, clock } = newSlot()
  const worker = new StubWorker()
  slot.use(worker.asWorker)
  await turns()
  const done = () => worker.onBatch?.({ type: 'done' })
  slot.add(operation('first'))
  await Promise.resolve()
  expect(worker.asked).toEqual(['batch first'])
  done()
  clock.advance(2)
  slot.add(operation('second'))
  await Promise.resolve()
  slot.add(operation('third'))
  expect(worker.asked).toEqual(['batch first'])
  await turns()
  expect(worker.asked).toEqual(['batch first', 'batch second,third'])
  done()
  clock.advance(3)
  slot.add(operation('fourth'))
  await Promise.resolve()
  expect(worker.asked).toEqual(['batch first', 'batch second,third', 'batch fourth'])
})
