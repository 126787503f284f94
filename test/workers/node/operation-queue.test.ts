import { expect, onTestFinished, test, vi } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import type { CellOperation } from '../../../src/service/operations.ts'
import { operationBytes, type QueuedOperation } from '../../../src/workers/node/dispatch/queued-operation.ts'
import { OperationQueue } from '../../../src/workers/node/queue/operation-queue.ts'
import { requestOf } from '../../support/request-bounds.ts'
import { codeOf, thrownBy } from '../../support/thrown.ts'

const BOUNDS = { operationsMax: 1_000, operationsPerCellMax: 400, bytesMax: 100_000_000 }
const NOW = 0
const SLICE_MS = 20

function operation(
  cellId: string,
  told: Partial<QueuedOperation> = {},
): QueuedOperation & { error?: unknown } {
  const queued: QueuedOperation & { error?: unknown } = {
    cellId,
    accountId: cellId,
    operation: { op: 'kv.get', key: 'k' },
    bytes: 1,
    statementMs: 1_000,
    notAfter: 1_000,
    signal: undefined,
    crashes: 0,
    isSettled: false,
    settle: (outcome) => {
      queued.isSettled = true
      if (!outcome.ok) queued.error = outcome.error
    },
    ...told,
  }
  return queued
}

const many = (cellId: string, count: number, told?: Partial<QueuedOperation>) =>
  Array.from({ length: count }, () => operation(cellId, told))

function queueOf(...operations: QueuedOperation[]): OperationQueue {
  const queue = new OperationQueue(BOUNDS, SLICE_MS)
  for (const each of operations) queue.add(each)
  return queue
}

/** `a:3 b:1` for a batch of three operations on a and one on b. */
const shape = (queue: OperationQueue) =>
  queue
    .takeBatch(NOW)
    .map((cell) => `${cell[0]?.cellId}:${cell.length}`)
    .join(' ')

test('no cell is held up by the many operations of another: each batch has some of all, once each', () => {
  const queue = queueOf(...many('a', 200), operation('b'), ...many('c', 10))
  expect(shape(queue)).toBe('a:64 b:1 c:10')
  queue.add(operation('d'))
  expect(shape(queue)).toBe('a:64 d:1')
  expect(shape(queue)).toBe('a:72')
  expect(shape(queue)).toBe('')
  expect(queue.size).toBe(0)
})

test('the rest of a cell has its turn after all others', () => {
  const queue = queueOf(...Array.from({ length: 5 }, (_, i) => many(`c${i}`, 65)).flat())
  expect(shape(queue)).toBe('c0:64 c1:64 c2:64 c3:64')
  expect(shape(queue)).toBe('c4:64 c0:1 c1:1 c2:1 c3:1')
  expect(shape(queue)).toBe('c4:1')
})

test('accounts have their turns, however many cells one of them has', () => {
  const mine = Array.from({ length: 300 }, (_, i) => operation(`m${i}`, { accountId: 'mine' }))
  const queue = queueOf(
    ...mine,
    operation('y1', { accountId: 'yours' }),
    operation('y2', { accountId: 'yours' }),
  )
  const taken = queue.takeBatch(NOW).map(([first]) => first?.cellId)
  expect(taken.slice(0, 5)).toEqual(['m0', 'y1', 'm1', 'y2', 'm2'])
  expect(taken).toHaveLength(66)
  queue.add(operation('y1', { accountId: 'yours' }))
  expect(shape(queue).split(' ').slice(0, 2)).toEqual(['m64:1', 'y1:1'])
  expect(shape(queue).split(' ')).toHaveLength(172)
})

test('a batch holds large operations only up to a bound, and one of any size', () => {
  const queue = queueOf(...many('a', 10, { bytes: 800_000 }), operation('b', { bytes: 20_000_000 }))
  expect(shape(queue)).toBe('a:3')
  expect(shape(queue)).toBe('b:1')
  expect(shape(queue)).toBe('a:3')
})

test('a cell, a worker and their memory have bounds, and a refusal says when to try again (invariant 13)', () => {
  const queue = new OperationQueue({ operationsMax: 3, operationsPerCellMax: 2, bytesMax: 10 }, SLICE_MS)
  queue.add(operation('a'))
  queue.add(operation('a'))
  expect(thrownBy(() => queue.add(operation('a')))).toMatchObject({
    code: 'busy',
    message: expect.stringContaining('2 operations wait for this cell; queue.operationsPerCellMax is 2'),
    details: { limit: 2, usage: 2 },
  })
  expect(codeOf(() => queue.add(operation('b', { bytes: 9 })))).toBe('busy')
  queue.add(operation('b'))
  expect(() => queue.add(operation('c'))).toThrow(
    expect.objectContaining({ code: 'busy', details: { limit: 3, retryAfterMs: 1_000 } }),
  )
  queue.takeBatch(NOW)
  queue.add(operation('a', { bytes: 10 }))
})

test('what was put back comes first, within the order that it had; no bound holds for it', () => {
  const queue = new OperationQueue({ operationsMax: 2, operationsPerCellMax: 2, bytesMax: 10 }, SLICE_MS)
  const [first, second, third] = [operation('a'), operation('a'), operation('a')]
  queue.add(third)
  queue.requeue([first, second, operation('b'), operation('b', { isSettled: true })])
  const [ofA, ofB] = queue.takeBatch(NOW)
  expect(ofA).toEqual([first, second, third])
  expect(ofB).toHaveLength(1)
  expect(queue.size).toBe(0)
})

test('what has waited for too long is refused, wherever it stands, and what is settled takes no room', () => {
  const queue = new OperationQueue({ operationsMax: 4, operationsPerCellMax: 4, bytesMax: 10 }, SLICE_MS)
  const waiting = [
    operation('a', { notAfter: 500 }),
    operation('a', { notAfter: 10 }),
    operation('a', { notAfter: 500 }),
    operation('b', { isSettled: true }),
  ]
  for (const each of waiting) queue.add(each)
  queue.expire(10)
  expect(waiting.map(({ error }) => (error as CellError | undefined)?.code)).toEqual([
    undefined,
    'busy',
    undefined,
    undefined,
  ])
  expect(queue.size).toBe(2)
  expect(queue.takeBatch(499)).toEqual([[waiting[0], waiting[2]]])
})

test('a batch begins nothing that is too late', () => {
  const late = operation('a', { notAfter: 10 })
  const queue = queueOf(late, operation('a'))
  expect(queue.takeBatch(10)).toHaveLength(1)
  expect(late.error).toBeInstanceOf(CellError)
})

test('what is under suspicion goes alone, in its turn, and holds up nobody for good', () => {
  const queue = queueOf(operation('a'), operation('b', { crashes: 1 }), operation('b'), operation('c'))
  expect(shape(queue)).toBe('a:1 c:1')
  queue.add(operation('a'))
  expect(shape(queue)).toBe('b:1')
  expect(shape(queue)).toBe('a:1 b:1')
})

test('what waits for one cell can be taken out', () => {
  const queue = queueOf(operation('a'), operation('b'), operation('a'))
  expect(queue.takeCell('a')).toHaveLength(2)
  expect(queue.takeCell('a')).toEqual([])
  expect([queue.hasOtherCell('b'), queue.hasOtherAccount('b')]).toEqual([false, false])
  expect([queue.hasOtherCell('a'), queue.hasOtherAccount('a')]).toEqual([true, true])
  expect(queue.takeAll()).toHaveLength(1)
})

test('what comes from another queue stands before what its cell has waiting; no bound holds for it', () => {
  const queue = new OperationQueue({ operationsMax: 2, operationsPerCellMax: 2, bytesMax: 2 }, SLICE_MS)
  const [first, second, later] = [operation('a'), operation('a'), operation('a')]
  for (const each of [later, operation('b')]) queue.add(each)
  queue.putCell([first, operation('a', { isSettled: true }), second])
  queue.putCell([])
  expect(queue.size).toBe(4)
  expect(queue.takeCell('a')).toEqual([first, second, later])
  expect(shape(queue)).toBe('b:1')
})

test('cells that come from another queue cost one pass each over their own operations, not over all that wait', () => {
  const [from, to] = [queueOf(...Array.from({ length: 1_000 }, (_, i) => mine(`m${i}`))), queueOf()]
  const adds = vi.spyOn(Set.prototype, 'add')
  onTestFinished(() => adds.mockRestore())
  for (let i = 0; i < 1_000; i++) to.putCell(from.takeCell(`m${i}`))
  expect(to.size).toBe(1_000)
  expect(adds.mock.calls.length).toBeLessThan(5_000)
})

test('an operation whose caller may no longer do it does not start, and is refused with the reason', () => {
  const reason = new CellError('unauthorized', 'The API key is not valid.')
  const revoked = operation('a', {
    permit: {
      check: () => {
        throw reason
      },
    },
  })
  const allowed = operation('a', { permit: { check: () => {} } })
  expect(queueOf(revoked, allowed).takeBatch(NOW)).toEqual([[allowed]])
  expect(revoked.error).toBe(reason)
})

test.each<[operation: CellOperation, bytesMin: number]>([
  [requestOf('kv.mget', { keys: Array(1_000).fill('k'.repeat(1_024)) }), 1_024_000],
  [requestOf('kv.get', undefined, { key: 'k'.repeat(1_024) }), 1_024],
  [requestOf('kv.list', undefined, { query: `prefix=${'k'.repeat(1_024)}` }), 1_024],
  [requestOf('kv.ttl', { keys: [] }), 100],
  [{ op: 'sql', sql: 'x'.repeat(1_000) }, 1_000],
])('no operation is free in the queue: %#', (operation, bytesMin) => {
  expect(operationBytes(operation)).toBeGreaterThanOrEqual(bytesMin)
})

const mine = (cellId: string) => operation(cellId, { accountId: 'mine' })
const yours = (cellId: string) => operation(cellId, { accountId: 'yours' })
const ran = (cellId: string) => ({ cellId, accountId: 'mine', operations: 1, ms: 30, hasStatements: true })

test('the account that has had the least of the worker’s time comes first, however few operations that was', () => {
  const queue = queueOf(mine('m'), yours('y'))
  queue.turns.charge('mine', 1, 30)
  queue.turns.charge('yours', 64, 0)
  expect(shape(queue)).toBe('y:1 m:1')
  queue.add(mine('m'))
  queue.add(yours('y'))
  queue.turns.charge('yours', 1, 60)
  expect(shape(queue)).toBe('m:1 y:1')
})

test('an account that pauses saves no time up, and one that comes later comes before those that have just run', () => {
  const queue = queueOf(mine('m'))
  queue.turns.charge('mine', 1, 1_000)
  queue.takeBatch(NOW)
  queue.add(mine('m'))
  queue.add(yours('y'))
  queue.turns.charge('mine', 1, 30)
  expect(shape(queue)).toBe('y:1 m:1')
  queue.turns.charge('yours', 1, 70)
  queue.add(mine('m'))
  queue.add(yours('y'))
  expect(shape(queue)).toBe('m:1 y:1')
})

test('a batch takes no more of an account than there is probably time for, and one operation at least', () => {
  const queue = queueOf(...many('a', 100), ...many('b', 100))
  queue.turns.charge('a', 10, 100)
  expect(shape(queue)).toBe('b:64 a:8')
  queue.turns.charge('a', 1, 1_000)
  expect(shape(queue)).toBe('b:36 a:1')
})

test('small operations are taken as if no time were measured', () => {
  const queue = queueOf(...many('a', 256))
  queue.turns.charge('a', 256, 5)
  expect(shape(queue)).toBe('a:256')
})

test('what a batch had no time for comes before what its cell has waiting, and its cell before others unless it has had its turn', () => {
  const queue = queueOf(...['a', 'a', 'b', 'c', 'c'].map(mine))
  const [ofA = [], ofB = [], ofC = []] = queue.takeBatch(NOW)
  const later = mine('b')
  for (const each of [mine('d'), later]) queue.add(each)
  queue.putBack({ returned: [...ofA.slice(1), ...ofB, ...ofC], ran: [ran('a')] })
  expect(queue.size).toBe(6)
  const batch = queue.takeBatch(NOW)
  expect(batch.map(([first]) => first?.cellId)).toEqual(['b', 'c', 'd', 'a'])
  expect(batch.slice(0, 2)).toEqual([[...ofB, later], ofC])
  expect(queue.size).toBe(0)
})

test('what a batch gives back comes behind other accounts, and what is settled does not come back', () => {
  const queue = queueOf(...['m', 'm', 'm'].map(mine))
  const [batch = []] = queue.takeBatch(NOW)
  queue.add(yours('y'))
  const [first, second, third] = batch as [QueuedOperation, QueuedOperation, QueuedOperation]
  second.settle({ ok: true, value: 1 })
  queue.turns.charge('mine', 1, 30)
  queue.putBack({ returned: [second, third], ran: [ran(first.cellId)] })
  expect(
    queue
      .takeBatch(NOW)
      .flat()
      .map(({ accountId }) => accountId),
  ).toEqual(['yours', 'mine'])
})

test('what a batch gives back costs one pass over the cells of its account, not one for each of them', () => {
  const queue = queueOf(...Array.from({ length: 1_000 }, (_, i) => mine(`m${i}`)))
  const [[first] = [], ...rest] = queue.takeBatch(NOW)
  const adds = vi.spyOn(Set.prototype, 'add')
  onTestFinished(() => adds.mockRestore())
  queue.putBack({ returned: rest.flat(), ran: [ran((first as QueuedOperation).cellId)] })
  expect(rest).toHaveLength(255)
  expect(adds.mock.calls.length).toBeLessThan(2_000)
})

test('what waits for a hold is no turn, is in nobody’s way, counts for every bound, and comes first once the hold is over', () => {
  const [first, second, late, after] = many('a', 4)
  const queue = new OperationQueue({ ...BOUNDS, operationsPerCellMax: 4 }, SLICE_MS)
  const settled = operation('a', { isSettled: true })
  const other = operation('b', { accountId: 'a' })
  queue.holdBack([first, settled, second, late, other] as QueuedOperation[])
  expect({ size: queue.size, bytes: queue.bytes, next: shape(queue) }).toEqual({
    size: 4,
    bytes: 4,
    next: '',
  })
  expect([queue.hasOtherCell('c'), queue.hasOtherAccount('c')]).toEqual([false, false])
  expect([...queue.waitingOf('a')]).toEqual([first, second, late, other])
  queue.add(after as QueuedOperation)
  expect(codeOf(() => queue.add(operation('a')))).toBe('busy')
  late?.settle({ ok: false, error: new CellError('busy', 'It no longer waits.') })
  queue.expire(NOW)
  expect(queue.size).toBe(4)
  queue.released('a')
  expect(queue.takeBatch(NOW)).toEqual([[first, second, after]])
  queue.expire(2_000)
  expect({ size: queue.size, code: (other.error as CellError).code }).toEqual({ size: 0, code: 'busy' })
  // The worker has ended; or the cell moves.
  queue.holdBack(many('a', 2))
  queue.allReleased()
  expect(shape(queue)).toBe('a:2')
  queue.holdBack(many('a', 2))
  expect(queue.takeCell('a')).toHaveLength(2)
  queue.holdBack(many('a', 2))
  expect(queue.takeAll()).toHaveLength(2)
  expect(queue.size).toBe(0)
})
