import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import type { SharedRow } from '../../../src/catalog/shared-rows.ts'
import { Replica } from '../../../src/cluster/postgres/replica.ts'
import { isCellError } from '../../../src/errors.ts'
import { type Cut, CuttingProxy } from '../../support/cluster/cutting-proxy.ts'
import { CatalogNode, ClusterNode } from '../../support/cluster/shared-catalog.ts'
import { hasPostgres, TestPostgres } from '../../support/postgres.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { codeOf, rejectedBy } from '../../support/thrown.ts'

const STORE_ID = '00000000-0000-4000-8000-000000000001'

describe.skipIf(!hasPostgres)('a catalog in PostgreSQL', () => {
  let postgres: TestPostgres
  let database: string
  let databases = 0
  beforeAll(async () => {
    postgres = await TestPostgres.start()
  })
  afterAll(async () => await postgres?.stop())

  const newUrl = async () => {
    database = `catalog${++databases}`
    return await postgres.newDatabase(database)
  }
  const join = async (url: string, options: Parameters<typeof ClusterNode.join>[3] = {}) => {
    const node = await ClusterNode.join(tempDirectory(), url, STORE_ID, options)
    onTestFinished(() => node.close())
    return node
  }
  const joinThree = async () => {
    const url = await newUrl()
    return [await join(url), await join(url), await join(url)] as const
  }
  const run = async (sql: string) => await postgres.query(sql, [], database)
  const expectAlike = async (...nodes: ClusterNode[]) => {
    for (const node of nodes) await node.shared.catchUp()
    for (const node of nodes) expect(node.content()).toEqual(nodes[0]?.content())
    const inPostgres = await run(
      'SELECT tbl, key, content FROM cellstore.rows WHERE content IS NOT NULL ORDER BY tbl, key',
    )
    const inReplica = [...(nodes[0] as ClusterNode).catalog.sharedRows()]
      .flat()
      .map(({ table, key, content }) => ({ tbl: table, key, content }))
    const byKey = (a: { tbl: string; key: string }, b: { tbl: string; key: string }) =>
      `${a.tbl} ${a.key}` < `${b.tbl} ${b.key}` ? -1 : 1
    expect((inPostgres as typeof inReplica).toSorted(byKey)).toEqual(inReplica.toSorted(byKey))
  }
  const isAlone = (node: ClusterNode) => run(`DELETE FROM cellstore.nodes WHERE id <> '${node.id}'`)

  test('is begun with the catalog of a store that ran alone, once, and other nodes get all of it', async () => {
    const url = await newUrl()
    const first = new ClusterNode(tempDirectory(), STORE_ID)
    onTestFinished(() => first.close())
    const account = first.accounts.create({ name: 'before' })
    const key = first.keys.create(account.id)
    first.catalog.change(() => {
      for (let i = 0; i < 5_000; i++)
        first.registry.insert({
          id: randomUUID(),
          accountId: account.id,
          name: `${i}`,
          createdAt: i,
          durability: null,
        })
    })
    const empty = new ClusterNode(tempDirectory(), STORE_ID)
    onTestFinished(() => empty.close())
    await first.connect(url)
    await empty.connect(url)
    expect(empty.registry.count(account.id)).toBe(5_000)
    expect(empty.keys.verify(key.key)).toMatchObject({ accountId: account.id })
    expect(await first.shared.seed()).toBe(false)
    await empty.createCell(account.id)
    await expectAlike(first, empty)
    // What a node was alone with before is not the cluster's.
    const old = new ClusterNode(tempDirectory(), STORE_ID)
    onTestFinished(() => old.close())
    old.accounts.create({ name: 'of an old copy' })
    await old.connect(url)
    await expectAlike(first, empty, old)
  })

  test('is what a node has that comes back, also if somebody has changed its copy meanwhile', async () => {
    const url = await newUrl()
    const directory = tempDirectory()
    const a = await join(url)
    const before = await ClusterNode.join(directory, url, STORE_ID)
    const { id } = await before.catalog.durably(() => before.accounts.create())
    await before.close()
    await a.shared.catchUp()
    const { key } = await a.catalog.durably(() => a.keys.create(id))
    const back = new ClusterNode(directory, STORE_ID)
    const { version } = new Replica(back.catalog)
    expect(version).toBe(a.shared.version - 1)
    await back.connect(url)
    back.keys.verify(key)
    await expectAlike(a, back)
    await back.close()
    const alone = new ClusterNode(directory, STORE_ID)
    alone.accounts.create({ name: 'of nobody' })
    expect(new Replica(alone.catalog).version).toBe(0)
    await alone.connect(url)
    await expectAlike(a, alone)
    await alone.close()
  })

  test('is begun by one of several nodes that start at once', async () => {
    const url = await newUrl()
    const nodes = Array.from({ length: 4 }, () => new ClusterNode(tempDirectory(), STORE_ID))
    onTestFinished(async () => {
      for (const node of nodes) await node.close()
    })
    for (const [i, node] of nodes.entries()) node.accounts.create({ name: `of ${i}` })
    await Promise.all(nodes.map((node) => node.connect(url)))
    expect(nodes[0]?.accounts.list().length).toBe(1)
    await expectAlike(...nodes)
  })

  test('refuses a node of another store, and one that does not know the catalog', async () => {
    const url = await newUrl()
    await join(url)
    const foreign = new ClusterNode(tempDirectory(), randomUUID())
    onTestFinished(() => foreign.close())
    expect(await rejectedBy(foreign.connect(url))).toMatchObject({
      code: 'invalid_setting',
      message: expect.stringContaining('belongs to the store'),
    })
    await run('UPDATE cellstore.cluster SET catalog_schema = 99')
    const old = new ClusterNode(tempDirectory(), STORE_ID)
    onTestFinished(() => old.close())
    expect(await rejectedBy(old.connect(url))).toMatchObject({
      code: 'invalid_setting',
      message: expect.stringContaining('newer cellstore'),
    })
  })

  test('is changed through the writer alone', async () => {
    const [a] = await joinThree()
    const { id } = await a.catalog.durably(() => a.accounts.create())
    expect(codeOf(() => a.accounts.create())).toBe('internal')
    expect(codeOf(() => a.accounts.suspend(id))).toBe('internal')
    expect(codeOf(() => a.catalog.note(() => a.catalog.prepare('DELETE FROM accounts').run()))).toBe(
      'internal',
    )
    expect(a.accounts.list().length).toBe(1)
  })

  describe.each<Cut>(['before', 'after'])('when its connection is cut %s any message', (cut) => {
    test('no change is lost, and none is made twice', async () => {
      const url = await newUrl()
      const proxy = await CuttingProxy.start(postgres.port)
      onTestFinished(() => proxy.stop())
      const a = await join(postgres.url(database, 'cellstore', proxy.port))
      const b = await join(url)
      const { id } = await a.catalog.durably(() => a.accounts.create())
      await b.shared.catchUp()
      let made = 0
      let wasCut = true
      for (let message = 1; wasCut; message++) {
        proxy.cutAt(message, cut)
        const names = [`a ${message}`, `b ${message}`, `c ${message}`]
        const ids = await Promise.all([
          a.createCell(id, { name: names[0] as string }),
          b.createCell(id, { name: names[1] as string }),
          a.createCell(id, { name: names[2] as string, key: `${message}` }),
        ])
        const isCaughtUp = () => a.shared.catchUp().then(() => true, onlyUnavailable)
        while (!(await isCaughtUp()));
        wasCut = proxy.wasCut()
        made += ids.length
        while (!(await isCaughtUp()));
        await b.shared.catchUp()
        for (const node of [a, b])
          expect(names.map((name) => node.registry.named(id, name))).toEqual(ids.map((each) => [each]))
        expect(b.registry.count(id)).toBe(made)
        if (message > 200) throw new Error('The proxy cuts nothing.')
      }
      expect(made).toBeGreaterThan(20)
      await expectAlike(a, b)
    })
  })

  test('says that the outcome is not known where PostgreSQL does not come back, and knows it once that has', async () => {
    const url = await newUrl()
    const proxy = await CuttingProxy.start(postgres.port)
    const hasty = { ...systemClock, monotonic: () => systemClock.monotonic() * 50 }
    const a = await join(postgres.url(database, 'cellstore', proxy.port), { parts: { clock: hasty } })
    const b = await join(url)
    const { id } = await a.catalog.durably(() => a.accounts.create())
    // Of the change's messages, the answer to its COMMIT is the last.
    for (let message = 1; ; message++) {
      proxy.cutAt(message, 'before')
      await a.createCell(id)
      if (proxy.wasCut()) continue
      proxy.cutAt(message - 1, 'before')
      break
    }
    const lost = a.createCell(id, { name: 'perhaps' })
    const failed = lost.then(
      () => undefined,
      (error) => error,
    )
    while (!proxy.hasCut) await new Promise((resolve) => setImmediate(resolve))
    await proxy.stop()
    expect(await failed).toMatchObject({
      code: 'cluster_unavailable',
      message: expect.stringContaining('not known'),
    })
    await b.shared.catchUp()
    expect(b.registry.named(id, 'perhaps').length).toBe(1)
  })

  test('refuses what a node writes that others have declared dead, and what one writes that is no member', async () => {
    const [a, b] = await joinThree()
    await run(`UPDATE cellstore.nodes SET state = 'dead' WHERE id = '${a.id}'`)
    expect(await rejectedBy(a.catalog.durably(() => a.accounts.create()))).toMatchObject({
      code: 'taken_over',
    })
    await b.shared.catchUp()
    expect(b.accounts.list()).toEqual([])
    await b.catalog.durably(() => b.accounts.create())
  })

  test('a node that was away for longer than deletions are remembered gets all of it anew', async () => {
    const [a, b] = await joinThree()
    const { id } = await a.catalog.durably(() => a.accounts.create())
    await b.shared.catchUp()
    const key = await a.catalog.durably(() => a.keys.create(id))
    await a.catalog.durably(() => a.keys.removeAll(id))
    await run(`DELETE FROM cellstore.rows WHERE content IS NULL; DELETE FROM cellstore.versions WHERE version < ${a.shared.version};
      UPDATE cellstore.cluster SET floor = ${a.shared.version}`)
    await b.createCell(id)
    expect(codeOf(() => b.keys.verify(key.key))).toBe('unauthorized')
    await expectAlike(a, b)
  })

  test('after a restart of PostgreSQL nothing changes before each node has told what it knows', async () => {
    const url = await newUrl()
    const hasty = { ...systemClock, monotonic: () => systemClock.monotonic() * 10 }
    const a = await join(url, { parts: { clock: hasty } })
    const b = await join(url)
    const c = await join(url)
    await postgres.kill()
    await postgres.restart()
    expect(await rejectedBy(a.catalog.durably(() => a.accounts.create()))).toMatchObject({
      code: 'cluster_unavailable',
      message: expect.stringContaining('restarted'),
    })
    await rejectedBy(b.shared.catchUp())
    expect(await rejectedBy(a.shared.catchUp())).toMatchObject({ code: 'cluster_unavailable' })
    // What is left of the third node is harmless.
    await run(`DELETE FROM cellstore.nodes WHERE id = '${c.id}'`)
    for (const node of [a, b]) await node.shared.catchUp().catch(() => {})
    await a.catalog.durably(() => a.accounts.create({ name: 'now' }))
    await expectAlike(a, b)
    expect(b.accounts.list()).toMatchObject([{ name: 'now' }])
  })

  test('nothing changes either while what comes before the reopening does not allow it', async () => {
    const url = await newUrl()
    let allowed = false
    const reopening = async () => {
      if (!allowed) throw new TypeError('not yet')
    }
    const a = await join(url, { parts: { reopening } })
    await postgres.kill()
    await postgres.restart()
    await expect(a.shared.catchUp()).rejects.toThrow('not yet')
    allowed = true
    await a.catalog.durably(() => a.accounts.create())
  })

  test('of a PostgreSQL that has lost its last commits, a revocation that others have confirmed is not lost', async () => {
    const url = await newUrl()
    const nodes: ClusterNode[] = []
    const confirmed: [number, readonly SharedRow[]][] = []
    const committed = async (version: number, rows: readonly SharedRow[]) => {
      confirmed.push([version, rows])
      for (const node of nodes) await node.shared.catchUp(version)
    }
    for (let i = 0; i < 3; i++) nodes.push(await join(url, { parts: { committed } }))
    const [a, b, c] = nodes as [ClusterNode, ClusterNode, ClusterNode]
    const { id } = await a.catalog.durably(() => a.accounts.create())
    const key = await a.catalog.durably(() => a.keys.create(id))
    const copy = postgres.copy()
    await a.catalog.durably(() => a.keys.revoke(id, key.id))
    const cellId = await b.createCell(id, { name: 'lost' })
    const { version } = a.shared
    expect(confirmed.at(-1)).toEqual([version, [expect.objectContaining({ table: 'cells', key: '[1]' })]])
    const left = await join(url)
    await postgres.putBack(copy)
    // The one that knows of it least hands in first.
    for (const node of [c, b, a]) await node.shared.catchUp().catch(() => {})
    await isAlone(a)
    await expectAlike(a, b, c)
    for (const node of nodes) {
      expect(node.shared.version).toBeGreaterThanOrEqual(version)
      expect(codeOf(() => node.keys.verify(key.key))).toBe('unauthorized')
      expect(node.registry.named(id, 'lost')).toEqual([cellId])
    }
    await expectAlike(a, left)
  })

  test('a revocation or a suspension that is repeated is told to all nodes again: the first time they may not have confirmed it (C7)', async () => {
    const told: string[] = []
    const committed = async (_: number, rows: readonly SharedRow[]) =>
      void told.push(...rows.map(({ table, content }) => `${table} ${content}`))
    const { catalog, accounts, keys } = await join(await newUrl(), { parts: { committed } })
    const { id } = await catalog.durably(() => accounts.create())
    const key = await catalog.durably(() => keys.create(id))
    const admitLess: (() => object)[] = [() => keys.revoke(id, key.id), () => accounts.suspend(id)]
    for (const change of admitLess) {
      const first = await catalog.durably(change)
      const tells = told.length
      expect(await catalog.durably(change)).toEqual(first)
      expect(told.slice(tells)).toEqual([told[tells - 1]])
    }
  })

  test('a revocation is not lost either if all who knew of it are gone: what they had stored is taken in', async () => {
    const url = await newUrl()
    const directory = tempDirectory()
    const gone = await ClusterNode.join(directory, url, STORE_ID)
    const { id } = await gone.catalog.durably(() => gone.accounts.create())
    const key = await gone.catalog.durably(() => gone.keys.create(id))
    const copy = postgres.copy()
    await gone.catalog.durably(() => gone.keys.revoke(id, key.id))
    const { version } = gone.shared
    await gone.close()
    await postgres.putBack(copy)
    await run('DELETE FROM cellstore.nodes')
    const asked: (string | null)[] = []
    async function* lost(incarnation: string | null) {
      asked.push(incarnation)
      const stored = new CatalogNode(directory, STORE_ID)
      yield stored.catalog
      stored.catalog.close()
    }
    const newcomer = await join(url, { parts: { lost } })
    expect(asked).toHaveLength(1)
    expect(newcomer.shared.version).toBe(version)
    expect(codeOf(() => newcomer.keys.verify(key.key))).toBe('unauthorized')
  })

  test('a node that comes back with changes of a history that PostgreSQL has lost forgets them', async () => {
    const [a, b] = await joinThree()
    const { id } = await a.catalog.durably(() => a.accounts.create())
    await b.shared.catchUp()
    const copy = postgres.copy()
    await b.createCell(id, { name: 'of the lost history' })
    await postgres.putBack(copy)
    // The node was taken over before it could hand anything in.
    await isAlone(a)
    await a.shared.catchUp()
    await a.createCell(id, { name: 'of this one' })
    await run(
      `INSERT INTO cellstore.nodes (id, address, prefix, epoch, state, started_at) VALUES ('${b.id}', '', '', 2, 'alive', 0)`,
    )
    await b.shared.catchUp()
    expect(b.registry.named(id, 'of the lost history')).toEqual([])
    expect(b.registry.named(id, 'of this one').length).toBe(1)
    await b.createCell(id, { name: 'of the lost history' })
    await expectAlike(a, b)
  })

  test('of a PostgreSQL that has lost more than a node remembers one by one, the whole catalog comes back', async () => {
    const url = await newUrl()
    const a = await join(url)
    const { id } = await a.catalog.durably(() => a.accounts.create())
    const copy = postgres.copy()
    for (let i = 0; i < 5; i++) await a.createCell(id, { name: `${i}` })
    a.catalog.note(() => {
      a.catalog.prepare('DELETE FROM cluster_rows').run()
      a.catalog.prepare('DELETE FROM cluster_versions WHERE version < ?').run(a.shared.version)
      a.catalog.prepare("UPDATE meta SET value = ? WHERE key = 'cluster_floor'").run(`${a.shared.version}`)
    })
    await postgres.putBack(copy)
    await a.shared.catchUp()
    expect(a.registry.count(id)).toBe(5)
    const b = await join(url)
    await b.createCell(id)
    await expectAlike(a, b)
  })

  test('many changes at once share few transactions', async () => {
    const [a] = await joinThree()
    const { id } = await a.catalog.durably(() => a.accounts.create())
    const { version } = a.shared
    await Promise.all(Array.from({ length: 500 }, () => a.createCell(id)))
    expect(a.registry.count(id)).toBe(500)
    expect(a.shared.version - version).toBeLessThanOrEqual(6)
  })
})

/** A connection that is found broken is replaced. @throws every other error */
function onlyUnavailable(error: unknown): false {
  if (isCellError(error, 'cluster_unavailable')) return false
  throw error
}
