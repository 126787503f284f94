import { expect, test } from 'vitest'
import type { QueuedOperation } from '../../../src/workers/node/operation-queue.ts'
import type { BatchMessage, Host } from '../../../src/workers/node/worker-process.ts'
import { Lane, type LostHost } from '../../../src/workers/node/worker-slot.ts'
import { FakeClock } from '../../support/fake-clock.ts'

/** A host that does nothing by itself. */
class StubHost {
  readonly ready = Promise.resolve()
  readonly isReady = true
  readonly hasTasks = false
  onBatch: ((message: BatchMessage) => void) | undefined
  batch = ''
  /** What it was asked, in order. */
  readonly asked: string[] = []
  /** What it says of the last transaction of any cell. */
  note: string | undefined
  readonly #ended = Promise.withResolvers<void>()
  readonly ended = this.#ended.promise

  runBatch(name: string, cells: readonly { cellId: string }[]): void {
    this.batch = name
    this.asked.push(`batch ${cells.map(({ cellId }) => cellId)}`)
  }

  runTask({ task, cellId }: { task: string; cellId: string }): Promise<unknown> {
    this.asked.push(`${task} ${cellId}`)
    return Promise.resolve(this.note)
  }

  kill(): void {}

  async end(): Promise<void> {
    this.#ended.resolve()
    await turns()
  }

  get asHost(): Host {
    return this as unknown as Host
  }
}

function operation(cellId: string): QueuedOperation & { settled: unknown[] } {
  const settled: unknown[] = []
  return {
    cellId,
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

function newLane() {
  const lost: LostHost[] = []
  const bounds = { operationsMax: 10, operationsPerCellMax: 10, bytesMax: 1_000 }
  let names = 0
  const context = {
    clock: new FakeClock(),
    bounds,
    record: () => undefined,
    nextBatchName: () => `b${++names}`,
    putBack: () => {},
  }
  return { lost, lane: new Lane(context, (_lane, each) => lost.push(each)) }
}

async function turns(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
}

test('a statement that has run to its end while its host was being ended is not at fault, and its transaction is asked for (invariant 8)', async () => {
  const { lane, lost } = newLane()
  const host = new StubHost()
  lane.use(host.asHost)
  const slow = operation('x')
  lane.add(slow)
  await turns()
  host.onBatch?.({ type: 'started', index: 0 })
  lane.end('held-up')
  // Its results and its COMMIT come before the signal does.
  host.onBatch?.({ type: 'results', outcomes: [[0, 'result']], transaction: `${host.batch}.1` })
  await host.end()
  expect(lost).toMatchObject([{ reason: 'held-up', statement: undefined, unrun: [] }])
  expect(lost[0]?.provisional.map(({ transaction }) => transaction)).toEqual(['b1.1'])
})

test.each([
  ['committed', 'b1.1', [{ ok: true, value: 'result' }]],
  ['not committed', undefined, []],
] as const)(
  'a transaction that was perhaps committed is asked for by the lane that has the cell now, before it runs anything else on it: it was %s',
  async (_what, note, settled) => {
    const { lane, lost } = newLane()
    const host = new StubHost()
    lane.use(host.asHost)
    const first = operation('x')
    lane.add(first)
    await turns()
    host.onBatch?.({ type: 'results', outcomes: [[0, 'result']], transaction: `${host.batch}.1` })
    await host.end()
    const apart = newLane().lane
    for (const each of lost[0]?.provisional ?? []) apart.resolve(each)
    apart.add(operation('x'))
    const other = Object.assign(new StubHost(), { note })
    apart.use(other.asHost)
    await turns()
    expect(other.asked.slice(0, 2)).toEqual(['last-transaction x', 'batch x'])
    expect(first.settled).toEqual(settled)
  },
)
