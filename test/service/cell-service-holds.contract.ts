import { randomUUID } from 'node:crypto'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { CellOperation, OperationHold, ResultOf } from '../../src/service/operations.ts'
import { rejectedBy } from '../support/thrown.ts'
import type { MakeService, ServiceUnderTest } from './service-under-test.ts'

/** Longer than any test waits for anything else. */
const TIMEOUT_MS = 20_000
const IDLE_MS = 300
const PER_ACCOUNT = 3

/** What a `CellService` promises of transactions that several operations share, as tests. */
export function cellServiceHoldsContract(name: string, make: MakeService): void {
  describe(`${name} keeps the contract of holds`, () => {
    let subject: ServiceUnderTest
    let id: string

    beforeAll(async () => {
      const holds = { timeoutMs: TIMEOUT_MS, idleMs: IDLE_MS, perAccount: PER_ACCOUNT, total: 100 }
      subject = await make({ hasObjects: true, sqlPolicy: 'trusted', holds })
    })

    afterAll(async () => await subject.close())

    beforeEach(async () => {
      id = await newCell()
    })

    async function newCell(accountId?: string): Promise<string> {
      const { id: made } = subject.store.createCell(accountId === undefined ? {} : { accountId })
      await subject.service.execute(made, { op: 'sql', sql: 'CREATE TABLE t (x UNIQUE)' })
      return made
    }

    function run<O extends CellOperation>(operation: O, cellId = id): Promise<ResultOf<O>> {
      return subject.service.execute(cellId, operation)
    }

    const insert = (x: number, hold?: OperationHold, cellId = id) =>
      run({ op: 'sql', sql: `INSERT INTO t VALUES (${x})`, hold }, cellId)
    const rows = async (hold?: OperationHold, cellId = id) =>
      (
        await run({ op: 'sql', sql: 'SELECT x FROM t ORDER BY x', rowMode: 'array', hold }, cellId)
      ).rows.flat()

    /** Begins one. What its test leaves open is rolled back. */
    async function begun({ readOnly, cellId = id }: { readOnly?: true; cellId?: string } = {}) {
      const hold = { id: randomUUID(), isOpen: true }
      await run({ op: 'hold', step: 'begin', readOnly, hold: { ...hold, isOpen: false } }, cellId)
      onTestFinished(async () => void (await end('rollback', hold, cellId).catch(() => {})))
      return hold
    }

    const end = (step: 'commit' | 'rollback', hold: OperationHold, cellId = id) =>
      run({ op: 'hold', step, hold }, cellId)

    test('operations that name it are one transaction: others see nothing of it before its COMMIT, and then all', async () => {
      const hold = await begun()
      await insert(1, hold)
      await run({ op: 'kv.put', key: 'k', value: 'v', hold })
      await run({
        op: 'batch',
        operations: [
          { op: 'sql', sql: 'INSERT INTO t VALUES (2)' },
          { op: 'kv.incr', key: 'n' },
        ],
        hold,
      })
      expect(await rows(hold)).toEqual([1, 2])
      expect(await run({ op: 'kv.get', key: 'k', hold })).toMatchObject({ value: 'v' })
      expect({ rows: await rows(), k: await run({ op: 'kv.get', key: 'k' }) }).toEqual({ rows: [] })
      expect(await run({ op: 'kv.list', options: {} })).toMatchObject({ entries: [] })
      await end('commit', hold)
      expect({ rows: await rows(), n: (await run({ op: 'kv.get', key: 'n' }))?.value }).toEqual({
        rows: [1, 2],
        n: '1',
      })
    })

    test('an operation that fails in it leaves it open, and undoes only itself; ROLLBACK undoes it all', async () => {
      const hold = await begun()
      await insert(1, hold)
      expect((await rejectedBy(insert(1, hold))).code).toBe('constraint_violation')
      const batch = run({
        op: 'batch',
        operations: [
          { op: 'sql', sql: 'INSERT INTO t VALUES (2)' },
          { op: 'sql', sql: 'INSERT INTO t VALUES (1)' },
        ],
        hold,
      })
      expect((await rejectedBy(batch)).details.index).toBe(1)
      expect(await rows(hold)).toEqual([1])
      await end('rollback', hold)
      expect(await rows()).toEqual([])
      expect((await rejectedBy(insert(3, hold))).code).toBe('invalid_request')
    })

    test('changes of the cell and further BEGINs wait for its end, and follow in their order; other cells go on', async () => {
      const hold = await begun()
      await insert(1, hold)
      const settled: string[] = []
      const note = async (what: string, done: Promise<unknown>) => {
        await done
        settled.push(what)
      }
      const other = { id: randomUUID(), isOpen: true }
      const waiting = [
        note('change', insert(2)),
        note('entry', run({ op: 'kv.incr', key: 'n' })),
        note('begin', run({ op: 'hold', step: 'begin', hold: { ...other, isOpen: false } })),
      ]
      const neighbour = await newCell()
      await insert(7, undefined, neighbour)
      expect({ rows: await rows(), others: await rows(undefined, neighbour), settled }).toEqual({
        rows: [],
        others: [7],
        settled: [],
      })
      await insert(3, hold)
      expect((await rejectedBy(insert(1, hold))).code).toBe('constraint_violation')
      await end('commit', hold)
      await Promise.all(waiting)
      expect(settled.at(-1)).toBe('begin')
      expect(await rows(other)).toEqual([1, 2, 3])
      await end('rollback', other)
    })

    test('a transaction that only reads has the state of its beginning, and makes nobody wait', async () => {
      await insert(1)
      const hold = await begun({ readOnly: true })
      await insert(2)
      expect({ inside: await rows(hold), outside: await rows() }).toEqual({ inside: [1], outside: [1, 2] })
      expect((await rejectedBy(insert(3, hold))).code).toBe('forbidden')
      await end('commit', hold)
      expect(await rows()).toEqual([1, 2])
    })

    test('once somebody waits, it is rolled back after a time without a use, and each later operation says so', async () => {
      const hold = await begun()
      await insert(1, hold)
      await insert(2)
      expect(await rows()).toEqual([2])
      for (const operation of [insert(3, hold), rows(hold), end('commit', hold)])
        expect(await rejectedBy(operation)).toMatchObject({
          code: 'transaction_timeout',
          details: { limit: IDLE_MS },
        })
      expect(await rows()).toEqual([2])
    })

    test('a statement that ends the transaction leaves nothing, and nothing after it is committed on its own', async () => {
      const hold = await begun()
      await insert(1, hold)
      const ending = run({ op: 'sql', sql: 'INSERT OR ROLLBACK INTO t VALUES (1)', hold })
      expect((await rejectedBy(ending)).code).toBe('constraint_violation')
      expect((await rejectedBy(insert(2, hold))).code).toBe('sql_error')
      expect((await rejectedBy(end('commit', hold))).code).toBe('sql_error')
      expect(await rows()).toEqual([])
    })

    test('a restore of the cell rolls it back', async () => {
      await insert(1)
      const { version } = await subject.service.backups.snapshot(id)
      const hold = await begun()
      await insert(2, hold)
      await subject.service.backups.restore(id, { version })
      expect((await rejectedBy(insert(3, hold))).code).toBe('transaction_lost')
      expect(await rows()).toEqual([1])
    })

    test('a backup waits for its end, and has what was committed', async () => {
      const hold = await begun()
      await insert(1, hold)
      let isMade = false
      const backup = subject.service.backups.snapshot(id).then((made) => {
        isMade = true
        return made
      })
      for (let turn = 0; turn < 20; turn++) {
        await insert(10 + turn, hold)
        await turnOfTheLoop()
      }
      expect(isMade).toBe(false)
      await end('rollback', hold)
      const { version } = await backup
      await insert(5)
      await subject.service.backups.restore(id, { version })
      expect(await rows()).toEqual([])
    })

    test('a deletion of the cell ends it', async () => {
      const hold = await begun()
      await insert(1, hold)
      await subject.service.deleteCell(id)
      const { code } = await rejectedBy(insert(2, hold))
      expect(['transaction_lost', 'transaction_timeout', 'cell_not_found']).toContain(code)
    })

    test('an id that nobody knows, and that of another cell, is of no open transaction: nothing runs', async () => {
      const other = await newCell()
      const hold = await begun()
      const unknown = { id: randomUUID(), isOpen: true }
      expect((await rejectedBy(insert(1, unknown))).code).toBe('transaction_lost')
      expect((await rejectedBy(insert(1, hold, other))).code).toBe('transaction_lost')
      expect({ own: await rows(), others: await rows(undefined, other) }).toEqual({ own: [], others: [] })
      const without = run({ op: 'hold', step: 'commit' })
      expect((await rejectedBy(without)).code).toBe('invalid_request')
    })

    test('an account has a bounded number of them open; one too many is rolled back, and its end makes room', async () => {
      const { id: accountId } = subject.store.accounts.create({ name: 'Holds' })
      const cells = await Promise.all(Array.from({ length: 12 }, () => newCell(accountId)))
      const outcomes = await Promise.allSettled(cells.map((cellId) => begun({ cellId })))
      const open = outcomes.filter(({ status }) => status === 'fulfilled').length
      // Each process counts its own.
      expect([PER_ACCOUNT, 2 * PER_ACCOUNT]).toContain(open)
      for (const each of outcomes)
        if (each.status === 'rejected')
          expect(each.reason).toMatchObject({ code: 'busy', details: { limit: 3 } })
      for (const [i, each] of outcomes.entries()) {
        if (each.status === 'fulfilled') await end('commit', each.value, cells[i])
        await insert(i, undefined, cells[i])
      }
      const [again] = cells
      const hold = await begun({ cellId: again as string })
      await end('commit', hold, again)
    })
  })
}
