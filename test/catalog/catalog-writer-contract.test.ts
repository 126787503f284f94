import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Quotas } from '../../src/catalog/account-quotas.ts'
import { CatalogNode, ClusterNode } from '../support/cluster/shared-catalog.ts'
import { hasPostgres, TestPostgres } from '../support/postgres.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'

/** What opens the catalog of a store as several nodes have it. Of the embedded one there is one node: it stands for all. */
type OpenNodes = (limits?: Quotas) => Promise<CatalogNode[]>

const STORE_ID = '00000000-0000-4000-8000-000000000001'

describe('the catalog of one node', () => {
  contract(async (limits) => {
    const node = new CatalogNode(tempDirectory(), STORE_ID, limits)
    onTestFinished(() => node.catalog.close())
    return [node, node, node]
  })
})

describe.skipIf(!hasPostgres)('the catalog of three nodes, in PostgreSQL', () => {
  let postgres: TestPostgres
  let databases = 0
  beforeAll(async () => {
    postgres = await TestPostgres.start()
  })
  afterAll(async () => await postgres?.stop())

  contract(async (limits) => {
    const url = await postgres.newDatabase(`contract${++databases}`)
    const nodes: ClusterNode[] = []
    for (let i = 0; i < 3; i++)
      nodes.push(await ClusterNode.join(tempDirectory(), url, STORE_ID, { ...(limits && { limits }) }))
    onTestFinished(async () => {
      for (const node of nodes) await node.shared.catchUp()
      for (const node of nodes) expect(node.content()).toEqual(nodes[0]?.content())
      for (const node of nodes) await node.close()
    })
    return nodes
  })
})

function contract(open: OpenNodes): void {
  const openThree = async (limits?: Quotas) => (await open(limits)) as [CatalogNode, CatalogNode, CatalogNode]
  /** What every node knows by the time it is asked. */
  const caughtUp = async (nodes: readonly CatalogNode[]) => {
    for (const node of nodes) if (node instanceof ClusterNode) await node.shared.catchUp()
  }

  test('what a change returns is there when it resolves, and on every node that has caught up', async () => {
    const nodes = await openThree()
    const [a] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create({ name: 'Ä "quoted" \u{1f600}' }))
    const { key } = await a.catalog.durably(() => a.keys.create(id, { name: 'k' }))
    expect(a.accounts.find(id)).toMatchObject({ name: 'Ä "quoted" \u{1f600}' })
    await caughtUp(nodes)
    for (const node of nodes) {
      expect(node.accounts.require(id)).toEqual(a.accounts.require(id))
      expect(node.keys.list(id)).toEqual(a.keys.list(id))
    }
    for (const node of nodes) expect(node.keys.verify(key)).toMatchObject({ accountId: id })
  })

  test('each node refuses a key that any of them has revoked, and an account that any has suspended', async () => {
    const nodes = await openThree()
    const [a, b, c] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create())
    const keys = [
      await a.catalog.durably(() => a.keys.create(id)),
      await b.catalog.durably(() => b.keys.create(id)),
    ]
    await caughtUp(nodes)
    const [first, second] = keys as [(typeof keys)[0], (typeof keys)[0]]
    for (const node of nodes) node.keys.verify(first.key)
    await c.catalog.durably(() => c.keys.revoke(id, first.id))
    await caughtUp(nodes)
    for (const node of nodes) {
      expect(() => node.keys.verify(first.key)).toThrow('not valid')
      expect(node.keys.verify(second.key)).toMatchObject({ keyId: second.id })
    }
    await b.catalog.durably(() => b.accounts.suspend(id))
    await caughtUp(nodes)
    for (const node of nodes) expect(() => node.keys.verify(second.key)).toThrow('suspended')
  })

  test('a quota of cells is exact when all nodes create at once, and a deletion makes room', async () => {
    const nodes = await openThree({ cellsMax: 10 })
    const [a] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create())
    await caughtUp(nodes)
    const calls = Array.from({ length: 30 }, (_, i) => (nodes[i % 3] as CatalogNode).createCell(id))
    const settled = await Promise.allSettled(calls)
    const made = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    expect(made.length).toBe(10)
    for (const each of settled)
      if (each.status === 'rejected')
        expect(each.reason).toMatchObject({ code: 'quota_exceeded', details: { limit: 10, usage: 10 } })
    await caughtUp(nodes)
    for (const node of nodes) expect(node.registry.count(id)).toBe(10)
    const [, b, c] = nodes
    await b.catalog.durably(() => b.registry.delete(made[0] as string, 5))
    await c.createCell(id)
    expect(await rejectedBy(a.createCell(id))).toMatchObject({ code: 'quota_exceeded' })
  })

  test('a name is one cell of its account, when all nodes make it at once, and is free after its deletion', async () => {
    const nodes = await openThree()
    const [a, b] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create())
    await caughtUp(nodes)
    const settled = await Promise.allSettled(nodes.map((node) => node.createCell(id, { name: 'acme' })))
    const made = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    expect(made.length).toBe(1)
    const [cellId] = made as [string]
    for (const each of settled)
      if (each.status === 'rejected')
        expect(each.reason).toMatchObject({ code: 'name_taken', message: expect.stringContaining(cellId) })
    await caughtUp(nodes)
    for (const node of nodes) expect(node.registry.named(id, 'acme')).toEqual([cellId])
    await b.catalog.durably(() => b.registry.delete(cellId, 5))
    const next = await a.createCell(id, { name: 'acme' })
    await caughtUp(nodes)
    for (const node of nodes) {
      expect(node.registry.named(id, 'acme')).toEqual([next])
      expect(node.registry.find(cellId)).toMatchObject({ deletedAt: 5 })
      expect(node.registry.list({ accountId: id, deleted: true }).cells.map((each) => each.id)).toEqual([
        cellId,
      ])
    }
  })

  test('an idempotency key makes one cell, however many nodes are asked, and refuses another request', async () => {
    const nodes = await openThree()
    const [a, b] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create())
    await caughtUp(nodes)
    const calls = Array.from({ length: 9 }, (_, i) =>
      (nodes[i % 3] as CatalogNode).createCell(id, { key: 'once' }),
    )
    const ids = await Promise.all(calls)
    expect(new Set(ids).size).toBe(1)
    await caughtUp(nodes)
    for (const node of nodes) expect(node.registry.count(id)).toBe(1)
    expect(await rejectedBy(b.createCell(id, { key: 'once', name: 'other' }))).toMatchObject({
      code: 'idempotency_key_reused',
    })
  })

  test('of idempotency keys the newest are kept, as many as the quota says', async () => {
    const nodes = await openThree({ idempotencyKeysMax: 3 })
    const [a] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create())
    await caughtUp(nodes)
    for (let i = 0; i < 8; i++) await (nodes[i % 3] as CatalogNode).createCell(id, { key: `key ${i}` })
    await caughtUp(nodes)
    for (const node of nodes)
      expect(node.catalog.database.prepare('SELECT count(*) FROM idempotency').pluck().get()).toBe(3)
  })

  test('what a change throws is what its caller gets, and the change leaves nothing behind', async () => {
    const nodes = await openThree()
    const [a, b] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create())
    await caughtUp(nodes)
    const refused = b.catalog.durably(() =>
      b.registry.insert({ id: STORE_ID, accountId: id, name: null, createdAt: 1, durability: null }, () => {
        throw new TypeError('no')
      }),
    )
    await expect(refused).rejects.toThrow(TypeError)
    expect(await rejectedBy(b.catalog.durably(() => b.accounts.suspend(STORE_ID)))).toMatchObject({
      code: 'account_not_found',
    })
    await caughtUp(nodes)
    for (const node of nodes) {
      expect(node.registry.find(STORE_ID)).toBeUndefined()
      expect(node.registry.count(id)).toBe(0)
    }
  })

  test('changes of one turn see each other in their order, and one that fails does not take the others along', async () => {
    const [a] = await openThree()
    const settled = await Promise.allSettled([
      a.catalog.durably(() => a.accounts.create({ name: 'first' })),
      a.catalog.durably(() => a.accounts.list().length),
      a.catalog.durably(() =>
        a.catalog.change(() => {
          a.accounts.create({ name: 'never' })
          throw new TypeError('no')
        }),
      ),
      a.catalog.durably(() => a.accounts.list().map(({ name }) => name)),
    ])
    expect(settled).toMatchObject([
      { value: { name: 'first' } },
      { value: 1 },
      { reason: expect.any(TypeError) },
      { value: ['first'] },
    ])
  })

  test('listeners are told of a change once it is there, and of none that was refused', async () => {
    const nodes = await openThree()
    const [a, b] = nodes
    const seen: number[] = []
    a.catalog.changed.listen(() => seen.push(a.accounts.list().length))
    await a.catalog.durably(() => a.accounts.create())
    expect(seen.at(-1)).toBe(1)
    await b.catalog.durably(() => b.accounts.create())
    await caughtUp(nodes)
    expect(seen.at(-1)).toBe(2)
  })

  test('cells are listed in the order of their creation, page by page, alike on every node', async () => {
    const nodes = await openThree()
    const [a] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create())
    await caughtUp(nodes)
    const made: string[] = []
    for (let i = 0; i < 12; i++)
      made.push(await (nodes[i % 3] as CatalogNode).createCell(id, { name: `cell ${i}` }))
    await caughtUp(nodes)
    for (const node of nodes) {
      const first = node.registry.list({ accountId: id, limit: 5 })
      // A cursor of one node is one of all.
      const rest = a.registry.list({ accountId: id, cursor: first.nextCursor as string })
      expect([...first.cells, ...rest.cells].map((each) => each.id)).toEqual(made)
    }
  })

  test('when a key was last used is known on every node', async () => {
    const nodes = await openThree()
    const [a, b] = nodes
    const { id } = await a.catalog.durably(() => a.accounts.create())
    const { key } = await a.catalog.durably(() => a.keys.create(id))
    await caughtUp(nodes)
    b.keys.verify(key)
    await b.keys.flush()
    await caughtUp(nodes)
    for (const node of nodes) expect(node.keys.list(id)).toMatchObject([{ lastUsedAt: expect.any(Number) }])
  })
}
