import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { NodeTable } from '../../../src/cluster/membership/node-table.ts'
import { Database } from '../../../src/cluster/postgres/database.ts'
import { PostgresNodeTable } from '../../../src/cluster/postgres/node-table.ts'
import { MemoryNodeTable } from '../../support/cluster/memory-node-table.ts'
import { hasPostgres, TestPostgres } from '../../support/postgres.ts'

const NODE = { id: 'a', address: 'http://a', prefix: 'nodes/a/', epoch: 3, stampBound: 50, startedAt: 1 }
const BEAT = { id: 'a', epoch: 3, counter: 1, seenVersion: 9, stampBound: 70, busyCells: 4 }

/** What every table of nodes keeps, whether the tests' own or PostgreSQL's. */
function contract(open: () => Promise<{ table: NodeTable }>): void {
  const server = async (table: NodeTable) => (await table.list()).head.server

  test('a node that has joined is listed, with what its last beat said', async () => {
    const { table } = await open()
    expect((await table.list()).nodes).toEqual([])
    expect(await table.join(NODE)).toEqual({ stampBound: 50 })
    expect(await table.beat(BEAT)).toMatchObject({ version: expect.any(Number), server: await server(table) })
    expect((await table.list()).nodes).toEqual([
      { ...NODE, state: 'alive', counter: 1, seenVersion: 9, stampBound: 70, busyCells: 4 },
    ])
  })

  test('a new start takes its row over with the stamps that were given, and the old one beats no more', async () => {
    const { table } = await open()
    await table.join(NODE)
    await table.beat(BEAT)
    expect(await table.join({ ...NODE, epoch: 4 })).toEqual({ stampBound: 70 })
    expect(await table.join(NODE)).toBeUndefined()
    expect(await table.beat(BEAT)).toBeUndefined()
    expect(await table.beat({ ...BEAT, epoch: 4 })).toBeDefined()
  })

  test('it is declared dead only at the beat that its watcher has seen, and neither beats nor joins after that', async () => {
    const { table } = await open()
    await table.join(NODE)
    await table.beat(BEAT)
    const watched = { id: 'a', epoch: 3, counter: 1, server: await server(table) }
    expect(await table.declareDead({ ...watched, counter: 0 })).toBe(false)
    expect(await table.declareDead({ ...watched, epoch: 2 })).toBe(false)
    expect(await table.declareDead({ ...watched, server: 'another' })).toBe(false)
    const declared = await Promise.all([table.declareDead(watched), table.declareDead(watched)])
    expect(declared.toSorted()).toEqual([false, true])
    expect(await table.beat({ ...BEAT, counter: 2 })).toBeUndefined()
    expect(await table.join({ ...NODE, epoch: 4 })).toBeUndefined()
    expect((await table.list()).nodes).toMatchObject([{ state: 'dead', counter: 1 }])
  })

  test('one that leaves beats on, and is gone once it is removed', async () => {
    const { table } = await open()
    await table.join(NODE)
    await table.setLeaving('a', 3, true)
    expect(await table.beat(BEAT)).toBeDefined()
    expect((await table.list()).nodes).toMatchObject([{ state: 'leaving' }])
    await table.setLeaving('a', 3, false)
    expect((await table.list()).nodes).toMatchObject([{ state: 'alive' }])
    await table.remove('a', 2)
    expect((await table.list()).nodes).toHaveLength(1)
    await table.remove('a', 3)
    expect((await table.list()).nodes).toEqual([])
    expect(await table.beat(BEAT)).toBeUndefined()
    expect(await table.taken()).toEqual([])
  })

  test('one whose cells were taken stays known, with what it has said last of its backups; a second taker changes nothing', async () => {
    const { table } = await open()
    await table.join(NODE)
    await table.beat({ ...BEAT, backedUpTo: 60 })
    // A beat that does not know takes nothing back, nor does a new start.
    await table.beat({ ...BEAT, counter: 2 })
    await table.join({ ...NODE, epoch: 4 })
    await table.beat({ ...BEAT, epoch: 4 })
    await table.remove('a', 4, 100)
    await table.remove('a', 4, 200)
    expect(await table.taken()).toEqual([{ id: 'a', at: 100, backedUpTo: 60 }])
    // Its clock was ahead, and was put right before it could say another time.
    await table.join({ ...NODE, id: 'c' })
    await table.beat({ ...BEAT, id: 'c', backedUpTo: 301 })
    await table.remove('c', 3, 300)
    expect((await table.taken())[0]).toEqual({ id: 'c', at: 300, backedUpTo: null })
    for (let i = 0; i < 30; i++) {
      await table.join({ ...NODE, id: `b${i}` })
      await table.remove(`b${i}`, 3, 1_000 + i)
    }
    expect((await table.taken())[0]).toEqual({ id: 'b29', at: 1_029, backedUpTo: null })
  })
}

describe('in memory', () => {
  contract(async () => ({ table: new MemoryNodeTable() }))
})

describe.skipIf(!hasPostgres)('in PostgreSQL', () => {
  let postgres: TestPostgres
  const databases: Database[] = []
  beforeAll(async () => {
    postgres = await TestPostgres.start()
  })
  afterAll(async () => {
    for (const database of databases) await database.close()
    await postgres?.stop()
  })

  contract(async () => {
    const database = await Database.connect(await postgres.newDatabase(`nodes${databases.length}`))
    databases.push(database)
    return { table: new PostgresNodeTable(database) }
  })
})
