import { describe, expect, test } from 'vitest'
import type { NodeRow } from '../../../src/cluster/membership/node-table.ts'
import { isRevocation, RevocationBarrier } from '../../../src/cluster/membership/revocation-barrier.ts'
import { CellError } from '../../../src/errors.ts'
import { MemoryNodeTable } from '../../support/cluster/memory-node-table.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { rejectedBy } from '../../support/thrown.ts'

async function setUp(confirm: (node: NodeRow, version: number) => Promise<number>) {
  const [table, clock] = [new MemoryNodeTable(), new FakeClock()]
  for (const id of ['a', 'b', 'c'])
    await table.join({ id, address: `http://${id}`, prefix: '', epoch: 1, stampBound: 0, startedAt: 0 })
  const barrier = new RevocationBarrier({
    self: 'a',
    table,
    clock,
    withinMs: 10_000,
    confirm,
    mayAnswer: () => {},
  })
  return { table, clock, barrier, pass: () => clock.advanceUntil(barrier.pass(5), 1_000) }
}

const silent = async () => {
  throw new CellError('node_unreachable', 'It does not answer.')
}

describe('a revocation is answered once every node knows it (C7)', () => {
  test('each other node is asked, and this one is not', async () => {
    const asked: string[] = []
    const { clock, pass } = await setUp(async ({ id }, version) => {
      asked.push(id)
      return version
    })
    const begun = clock.monotonic()
    await pass()
    expect(asked.toSorted()).toEqual(['b', 'c'])
    expect(clock.monotonic()).toBe(begun)
  })

  test('a node that does not answer may say it with a beat', async () => {
    const { table, pass } = await setUp(async ({ id }, version) => {
      if (id === 'b') return version
      await table.beat({ id: 'c', epoch: 1, counter: 1, seenVersion: 5, stampBound: 0, busyCells: 0 })
      return await silent()
    })
    await pass()
  })

  test('a silent node is waited for until it is taken over: being dead is not enough', async () => {
    let asked = 0
    const { table, clock, pass } = await setUp(async ({ id }, version) => {
      if (id === 'b') return version
      if (++asked === 20) table.rows.set('c', { ...(table.rows.get('c') as NodeRow), state: 'dead' })
      if (asked === 40) table.rows.delete('c')
      return await silent()
    })
    await pass()
    expect(asked).toBe(40)
    expect(clock.monotonic()).toBe(3_900)
  })

  test('otherwise the answer says which node may not know it', async () => {
    const { pass } = await setUp(async ({ id }, version) => (id === 'b' ? version : await silent()))
    expect(await rejectedBy(pass())).toMatchObject({
      code: 'not_serving',
      message: expect.stringContaining('http://c'),
    })
  })
})

test.each([
  ['a new key', 'api_keys', { id: 'k' }, false],
  ['a revoked key', 'api_keys', { id: 'k', revoked_at: 1 }, true],
  ['a key that a rotation has replaced', 'api_keys', { id: 'k', retires_at: 1 }, true],
  ['a key that is gone', 'api_keys', null, true],
  ['a suspended account', 'accounts', { id: 'a', suspended_at: 1 }, true],
  ['an account', 'accounts', { id: 'a' }, false],
  ['a deleted cell', 'cells', null, false],
])('%s: %s %j admits less: %s', (_, table, row, admitsLess) => {
  expect(isRevocation([{ table, content: row === null ? null : JSON.stringify(row) }])).toBe(admitsLess)
})
