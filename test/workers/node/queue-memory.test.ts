import { type HeapProfiler, Session } from 'node:inspector/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { QueuedOperation } from '../../../src/workers/node/dispatch/queued-operation.ts'
import { OperationQueue } from '../../../src/workers/node/queue/operation-queue.ts'

const BOUNDS = { operationsMax: 1_000, operationsPerCellMax: 400, bytesMax: 100_000_000 }
const SLICE_MS = 20
const CELLS = 1_000
const BATCHES = 2_000
const OPERATIONS_A_BATCH = 16

interface Asked extends QueuedOperation {
  /** What its caller holds as long as it waits: about 5 KB, as a request over HTTP. */
  request: unknown
}

function operation(cell: number): Asked {
  return {
    cellId: `cell-${cell % CELLS}`,
    accountId: 'account',
    operation: { op: 'kv.put', key: 'k', value: '' },
    bytes: 1,
    statementMs: 1_000,
    notAfter: 1_000,
    signal: undefined,
    crashes: 0,
    isSettled: false,
    settle: () => {},
    request: Array.from({ length: 128 }, () => ({ cell })),
  }
}

/** Bytes that `run` makes and that outlive a collection of V8's young objects, also those that a full collection frees later. */
async function survivingBytes(run: () => void): Promise<number> {
  const session = new Session()
  session.connect()
  onTestFinished(() => session.disconnect())
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: 4_096,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: false,
  } as HeapProfiler.StartSamplingParameterType)
  run()
  const { profile } = await session.post('HeapProfiler.stopSampling')
  const sum = (node: HeapProfiler.SamplingHeapProfileNode): number =>
    node.children.reduce((bytes, child) => bytes + sum(child), node.selfSize)
  return sum(profile.head)
}

test('what has left the queue does not live on in tables that its maps have outgrown (invariant 13)', async () => {
  const queue = new OperationQueue(BOUNDS, SLICE_MS)
  for (let cell = 0; cell < OPERATIONS_A_BATCH; cell++) queue.add(operation(cell))
  queue.takeBatch(0)
  // From here on the queue is among V8's old objects, as that of a node which has been up for some seconds.
  for (let i = 0; i < 100_000; i++) operation(i)
  let taken = 0
  const bytes = await survivingBytes(() => {
    for (let batch = 0; batch < BATCHES; batch++) {
      for (let i = 0; i < OPERATIONS_A_BATCH; i++) queue.add(operation(batch * OPERATIONS_A_BATCH + i))
      taken += queue.takeBatch(0).length
    }
  })
  expect(taken).toBe(BATCHES * OPERATIONS_A_BATCH)
  // Of 160 MB. It was nearly all of it.
  expect(bytes).toBeLessThan(32_000_000)
})
