import { once } from 'node:events'
import net from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Database } from '../../../src/cluster/postgres/database.ts'
import { CellError } from '../../../src/errors.ts'
import { freePort } from '../../support/free-port.ts'
import { hasPostgres, TestPostgres } from '../../support/postgres.ts'
import { rejectedBy } from '../../support/thrown.ts'

describe.skipIf(!hasPostgres)('the PostgreSQL of a cluster', () => {
  let postgres: TestPostgres
  let databases = 0
  beforeAll(async () => {
    postgres = await TestPostgres.start()
  })
  afterAll(async () => await postgres?.stop())
  const emptyDatabase = async () => await postgres.newDatabase(`database${++databases}`)
  const databaseNow = () => `database${databases}`

  test('gets its schema once, whichever of several nodes that start at once makes it', async () => {
    const url = await emptyDatabase()
    const nodes = await Promise.all(Array.from({ length: 8 }, () => Database.connect(url)))
    const heads = await Promise.all(nodes.map((node) => node.query('SELECT * FROM cellstore.cluster')))
    expect(heads[0]).toMatchObject([
      { schema_version: 2, version: 0, secret: expect.stringMatching(/^\w{64}$/) },
    ])
    for (const head of heads) expect(head).toEqual(heads[0])
    for (const node of nodes) await node.close()
  })

  test('is refused by a version that does not know its schema, and by none that does', async () => {
    const url = await emptyDatabase()
    await (await Database.connect(url)).close()
    await (await Database.connect(url)).close()
    await postgres.query('UPDATE cellstore.cluster SET schema_version = 99', [], databaseNow())
    expect(await rejectedBy(Database.connect(url))).toMatchObject({
      code: 'invalid_setting',
      message: expect.stringContaining('version 99'),
    })
  })

  test('is refused, and left as it is, where the schema holds something else', async () => {
    const url = await emptyDatabase()
    await postgres.query(
      'CREATE SCHEMA cellstore; CREATE TABLE cellstore.cluster (a INTEGER)',
      [],
      databaseNow(),
    )
    expect(await rejectedBy(Database.connect(url))).toMatchObject({
      code: 'invalid_setting',
      message: expect.stringContaining('something else'),
    })
    const tables = await postgres.query(
      "SELECT relname FROM pg_class WHERE relnamespace = 'cellstore'::regnamespace",
      [],
      databaseNow(),
    )
    expect(tables).toEqual([{ relname: 'cluster' }])
  })

  test('says what a role lacks that may not make the schema, and works once it owns one', async () => {
    await emptyDatabase()
    await postgres.query('CREATE ROLE guest LOGIN')
    const url = postgres.url(databaseNow(), 'guest')
    expect(await rejectedBy(Database.connect(url))).toMatchObject({
      code: 'invalid_setting',
      message: expect.stringContaining('CREATE SCHEMA cellstore AUTHORIZATION'),
    })
    await postgres.query('CREATE SCHEMA cellstore AUTHORIZATION guest', [], databaseNow())
    const database = await Database.connect(url)
    // An ordinary role may ask which server it is.
    expect(await database.query(`SELECT ${database.incarnation} AS it`)).toMatchObject([
      { it: expect.stringMatching(/^\d+-00000001-\d+/) },
    ])
    await database.close()
  })

  test.each([
    ['no URL', 'here'],
    ['another protocol', 'http://127.0.0.1/db'],
  ])('refuses %s as a setting', async (_, url) => {
    expect(await rejectedBy(Database.connect(url))).toMatchObject({ code: 'invalid_setting' })
  })

  test('refuses a role and a database that do not exist as settings', async () => {
    for (const url of [postgres.url('nowhere'), postgres.url('postgres', 'nobody')])
      expect(await rejectedBy(Database.connect(url))).toMatchObject({ code: 'invalid_setting' })
  })

  test('is unavailable where nobody listens, and where nobody answers', async () => {
    const refusing = postgres.url('postgres', 'cellstore', await freePort())
    expect(await rejectedBy(Database.connect(refusing))).toMatchObject({ code: 'cluster_unavailable' })
    const silent = net.createServer(() => {}).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as net.AddressInfo
    const stalled = Database.connect(postgres.url('postgres', 'cellstore', port), { deadlineMs: 200 })
    expect(await rejectedBy(stalled)).toMatchObject({ code: 'cluster_unavailable' })
    silent.close()
  })

  test('is another one after a restart, and a connection of before does not stay in the way', async () => {
    const database = await Database.connect(await emptyDatabase())
    const incarnation = async () => await database.query(`SELECT ${database.incarnation} AS it`)
    const before = await incarnation()
    expect(await incarnation()).toEqual(before)
    await postgres.kill()
    expect(await rejectedBy(incarnation())).toMatchObject({ code: 'cluster_unavailable' })
    await postgres.restart()
    expect(await incarnation()).not.toEqual(before)
    await database.close()
  })

  test('what a transaction throws takes it back', async () => {
    const database = await Database.connect(await emptyDatabase())
    const refused = database.transaction(['SELECT 1 AS one'], async (transaction, opened) => {
      expect(opened).toEqual([[{ one: 1 }]])
      await transaction.query('UPDATE cellstore.cluster SET version = $1', [7])
      throw new CellError('busy', 'no')
    })
    expect(await rejectedBy(refused)).toMatchObject({ message: 'no' })
    expect(await database.query('SELECT version FROM cellstore.cluster')).toEqual([{ version: 0 }])
    await database.transaction([], (transaction) =>
      transaction.query('UPDATE cellstore.cluster SET version = $1', [7]),
    )
    expect(await database.query('SELECT version FROM cellstore.cluster')).toEqual([{ version: 7 }])
    await database.close()
  })
})
