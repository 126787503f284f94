import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { FailingStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { WeakStore } from '../support/backup/weak-store.ts'
import { KeptLog } from '../support/kept-log.ts'
import { rejectedBy, thrownBy } from '../support/thrown.ts'

const MESSAGE = expect.stringContaining('needs an object store that honours conditional writes')
const shipped = { backups: { maxLagMs: 10_000 } }

const place = ScratchPlace.perTest()

const weak = () => new WeakStore(place.folder())
const remote = { durability: 'remote', ...shipped } as const
const soon = <T>(work: Promise<T>) => place.advanceUntil(work, 1_000)

describe('On an object store that does not honour conditional writes, durability remote is refused:', () => {
  const refused = { code: 'invalid_setting', details: { field: 'durability' }, message: MESSAGE }

  test('a first start', async () => {
    expect(await rejectedBy(soon(place.create({ objectStore: weak(), ...remote })))).toMatchObject(refused)
  })

  test('a start with a directory that has its catalog, and one after a total loss', async () => {
    await (await soon(place.create({ objectStore: weak() }))).close()
    // Without a wait: the entry has a deadline.
    expect(await rejectedBy(place.open({ objectStore: weak(), ...remote }))).toMatchObject(refused)
    place.loseData()
    expect(await rejectedBy(place.open({ objectStore: weak(), ...remote }))).toMatchObject(refused)
    const store = await soon(place.open({ objectStore: weak() }))
    await soon(store.close())
  })

  test('and where the object store did not answer at the start, nothing is acknowledged, and an error says why', async () => {
    await (await soon(place.create({ objectStore: weak() }))).close()
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1)
    failing.forGood = true
    const log = new KeptLog()
    const store = await soon(place.open({ objectStore: new WeakStore(failing), log, ...remote }))
    const cell = createLedger(store)
    failing.failAt = 0
    const error = await rejectedBy(soon(cell.commit(() => addRow(cell, 'one'))))
    expect(error).toMatchObject({ code: 'not_replicated', cause: refused })
    expect(log.errors).toMatchObject([{ err: refused }])
    await soon(store.close())
  })

  test('a new cell, however it is made, and nothing is left of it', async () => {
    const store = await soon(place.create({ objectStore: weak(), ...shipped }))
    const cell = createLedger(store)
    const file = path.join(place.root, 'export.db')
    await cell.export(file)
    await soon(store.backups.snapshot(cell.id))
    const durability = 'remote'
    const errors = [
      thrownBy(() => store.createCell({ durability })),
      thrownBy(() => store.cell('acme', { durability })),
      await rejectedBy(store.addCell({ durability })),
      await rejectedBy(store.importCell(file, { durability })),
      await rejectedBy(soon(store.createCell({ from: { cellId: cell.id }, durability }))),
    ]
    for (const error of errors)
      expect(error).toMatchObject({
        code: 'invalid_request',
        details: { field: 'durability' },
        message: MESSAGE,
      })
    expect(store.cells().cells.map(({ id }) => id)).toEqual([cell.id])
    expect(store.createCell({ durability: 'full' }).id).toBeDefined()
    await soon(store.close())
  })

  test('a change of a cell that came from elsewhere with it, by the library and over HTTP; reads work', async () => {
    const first = await place.create(shipped)
    const accountId = first.accounts.create().id
    const { key } = first.apiKeys.create(accountId)
    const { id } = createLedger(first, { durability: 'remote', accountId })
    await soon(first.close())
    const store = await soon(place.open({ objectStore: weak(), ...shipped }))
    const cell = store.openCell(id)
    const error = await rejectedBy(soon(cell.commit(() => addRow(cell, 'one'))))
    expect(error.code).toBe('not_replicated')
    expect(error.message).toContain('does not honour conditional writes')
    const handler = createHandler(store)
    const put = new Request(`http://localhost/v1/databases/${id}/kv/greeting`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ value: 'hello' }),
    })
    const reply = await soon(handler(put))
    expect([reply.status, await reply.json()]).toMatchObject([503, { code: 'not_replicated' }])
    expect(notes(cell)).toEqual(['one'])
    const full = createLedger(store)
    await soon(full.replicated())
    await soon(store.close())
  })
})

test('Without shipping, no cell is made with durability remote, and nothing is left of it', async () => {
  const store = await soon(place.create())
  expect(thrownBy(() => store.createCell({ durability: 'remote' }))).toMatchObject({
    code: 'invalid_request',
    details: { field: 'durability' },
    message: expect.stringContaining('needs an object store'),
  })
  expect(store.cells().cells).toEqual([])
  await soon(store.close())
})
