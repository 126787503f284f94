import { expect, test } from 'vitest'
import type { CellSession } from '../../../src/service/holds/cell-session.ts'
import { OpenHolds } from '../../../src/service/holds/open-holds.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { openTestStore } from '../../support/open-test-store.ts'
import { codeOf } from '../../support/thrown.ts'

const LIMITS = { timeoutMs: 5_000, idleMs: 1_000, perAccount: 3, total: 5 }

async function opened() {
  const { store, clock } = await openTestStore()
  const holds = new OpenHolds(LIMITS)
  const begin = (session: CellSession) => session.begin()
  let n = 0
  /** @returns the id of one in a cell of its own */
  const hold = (accountId: string, work = begin, cell: Cell = store.createCell()) => {
    const id = `${accountId}${++n}`
    holds.run(cell, { id, isOpen: false }, { accountId }, work)
    return { id, cell, accountId }
  }
  const use = (
    { id, cell, accountId }: ReturnType<typeof hold>,
    work: (session: CellSession) => void = () => {},
  ) => holds.run(cell, { id, isOpen: true }, { accountId }, work)
  return { store, clock, holds, hold, use }
}

test('with too many open, the oldest of the account that has most makes room: others keep theirs', async () => {
  const { hold, use } = await opened()
  const few = hold('few')
  const many = [hold('many'), hold('many'), hold('many')]
  expect(codeOf(() => hold('many'))).toBe('busy')
  const others = [hold('other'), hold('another')]
  for (const each of [few, ...others, ...many.slice(1)]) use(each)
  expect(codeOf(() => use(many[0] as (typeof many)[number]))).toBe('transaction_lost')
})

test('an operation that is refused because too many are open has not run: what it commits is never answered as one to try again', async () => {
  const { store, hold, use, holds } = await opened()
  const [first] = [hold('a'), hold('a'), hold('a')]
  const cell = store.createCell()
  const put = (key: string) => (session: CellSession) => {
    session.begin()
    session.cell.kv.put(key, 'v')
    session.commit()
  }
  const putAndBegin = (session: CellSession) => {
    put('k')(session)
    session.begin()
  }
  expect(codeOf(() => hold('a', putAndBegin, cell))).toBe('busy')
  expect(cell.kv.get('k')).toBeUndefined()
  // The end of one makes room at once, and what leaves none open needs no room.
  use(first, (session) => {
    session.cell.kv.put('committed', 'v')
    session.commit()
    session.begin()
  })
  expect(first.cell.kv.get('committed')).toBe('v')
  use(first, (session) => session.rollback())
  hold('a', putAndBegin, cell)
  const other = store.createCell()
  holds.run(other, { id: 'ends', isOpen: false }, { accountId: 'a', mayStay: false }, put('k'))
  expect(other.kv.get('k')).toBe('v')
})

test('a transaction that an operation has begun and not ended is rolled back if the operation fails, and one from before stays', async () => {
  const { store, hold, use } = await opened()
  const cell = store.createCell()
  const failing = (session: CellSession) => {
    session.begin()
    session.cell.kv.put('k', 'v')
    throw new Error('failed')
  }
  expect(() => hold('a', failing, cell)).toThrow('failed')
  cell.kv.put('k', 'free again')
  const open = hold('a', (session) => session.begin(), cell)
  const inside = (session: CellSession) => {
    session.cell.kv.put('k', 'held')
    throw new Error('failed')
  }
  expect(() => use(open, inside)).toThrow('failed')
  use(open, (session) => session.commit())
  expect(cell.kv.get('k')).toBe('held')
})

test('one operation can end a transaction and begin the next; how each ended is remembered', async () => {
  const { clock, store, hold, use } = await opened()
  const cell = store.createCell()
  const open = hold('a', (session) => session.begin(), cell)
  use(open, (session) => {
    session.cell.kv.put('a', '1')
    session.commit()
    expect(session.inTransaction).toBe(false)
    session.begin()
    session.savepoint('s')
    session.cell.kv.put('b', '2')
    session.rollbackTo('s')
    session.releaseSavepoint('s')
  })
  expect([cell.kv.get('a'), cell.kv.get('b')]).toEqual(['1', undefined])
  use(open, (session) => expect(codeOf(() => session.begin())).toBe('invalid_request'))
  clock.advance(LIMITS.timeoutMs)
  expect(codeOf(() => use(open))).toBe('transaction_timeout')
  await Promise.resolve()
  expect(codeOf(() => use(open))).toBe('transaction_timeout')
  cell.kv.put('c', '3')
})

test('the node is told before each COMMIT, and of nothing else', async () => {
  const { store, holds } = await opened()
  const cell = store.createCell()
  const told: (string | undefined)[] = []
  const committing = () => told.push(cell.kv.get('k'))
  holds.run(cell, { id: 'x', isOpen: false }, { accountId: 'a', committing }, (session) => {
    for (const k of ['1', '2', 'undone']) {
      session.begin()
      session.cell.kv.put('k', k)
      if (k === 'undone') session.rollback()
      else session.commit()
    }
  })
  expect(told).toEqual([undefined, '1'])
  expect(cell.kv.get('k')).toBe('2')
})
