import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { CellInstaller } from '../../src/backup/restore/install/cell-installer.ts'
import { CellError } from '../../src/errors.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { FailingStore, GatedStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { rejectedBy } from '../support/thrown.ts'
import { turnsUntil } from '../support/turns.ts'

const REMOTE = { durability: 'remote', backups: { maxLagMs: 3_600_000 } } as const

const place = ScratchPlace.perTest()

interface Account {
  store: CellStore
  key: string
  ask(
    method: string,
    target: string,
    body?: object,
    more?: Record<string, string>,
  ): Promise<{ status: number; json: Record<string, unknown> }>
}

function newKey({ accounts, apiKeys }: CellStore): string {
  return apiKeys.create(accounts.create().id).key
}

function accountOf(store: CellStore, key = newKey(store)): Account {
  const handler = createHandler(store)
  const ask: Account['ask'] = async (method, target, body, more) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more }
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const reply = await handler(new Request(`http://localhost/v1/databases${target}`, init))
    return { status: reply.status, json: (await reply.json()) as Record<string, unknown> }
  }
  return { store, key, ask }
}

/** What was not in the object store at this moment never gets there. */
async function afterSuddenLoss(store: CellStore, failing: FailingStore): Promise<CellStore> {
  failing.failFromHere(1)
  failing.forGood = true
  await place.advanceUntil(store.close())
  failing.failAt = 0
  failing.forGood = false
  place.loseData()
  return await place.advanceUntil(place.open({ ...REMOTE, objectStore: failing }))
}

describe('In durability remote', () => {
  test('a held transaction resolves once it is in the object store, and its signal undoes nothing after the COMMIT', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.soon(place.create({ ...REMOTE, objectStore: failing }))
    const cell = store.createCell()
    const abort = new AbortController()
    const held = cell.hold(async (tx) => void tx.kv.put('k', 'held'), { signal: abort.signal })
    await turnsUntil(() => cell.kv.get('k') === 'held', 'the COMMIT')
    abort.abort()
    await place.soon(held)
    const again = await afterSuddenLoss(store, failing)
    const restored = again.openCell(cell.id)
    await place.soon(restored.ensureLocal())
    expect(restored.kv.get('k')).toBe('held')
    await place.soon(again.close())
  })

  test('what a request made or changed of a cell survives the loss of the machine right after the answer', async () => {
    const failing = new FailingStore(place.folder())
    const { store, ask } = accountOf(await place.soon(place.create({ ...REMOTE, objectStore: failing })))
    const made = await place.soon(ask('POST', '', { name: 'made' }))
    expect(made.status).toBe(201)
    const id = made.json['id'] as string
    let again = await afterSuddenLoss(store, failing)
    await place.soon(again.openCell(id).ensureLocal())
    expect(again.findCell(id)).toMatchObject({ name: 'made', deletedAt: null })

    const renaming = accountOf(again)
    const mine = (await place.soon(renaming.ask('POST', '', { name: 'mine' }))).json['id'] as string
    expect((await place.soon(renaming.ask('PATCH', `/${mine}`, { name: 'renamed' }))).status).toBe(200)
    again = await afterSuddenLoss(again, failing)
    expect(again.findCell(mine)).toMatchObject({ name: 'renamed' })

    const deleting = accountOf(again)
    const other = (await place.soon(deleting.ask('POST', '', {}))).json['id'] as string
    expect((await place.soon(deleting.ask('DELETE', `/${other}`))).status).toBe(200)
    again = await afterSuddenLoss(again, failing)
    expect(again.findCell(other)?.deletedAt).not.toBeNull()
    await place.advanceUntil(again.close())
  })

  test('an imported cell, and one with the state of another cell, survive it too', async () => {
    const failing = new FailingStore(place.folder())
    let store = await place.soon(place.create({ ...REMOTE, objectStore: failing }))
    const first = createLedger(store)
    addRow(first, 'one')
    const file = path.join(place.root, 'export.db')
    await place.soon(first.export(file))
    const imported = await place.soon(store.importCell(file))
    store = await afterSuddenLoss(store, failing)
    await place.soon(store.openCell(imported.id).ensureLocal())
    expect(notes(store.openCell(imported.id))).toEqual(['one'])
    const copy = await place.soon(store.createCell({ from: { cellId: imported.id } }))
    store = await afterSuddenLoss(store, failing)
    await place.soon(store.openCell(copy.id).ensureLocal())
    expect(notes(store.openCell(copy.id))).toEqual(['one'])
    await place.advanceUntil(store.close())
  })

  test('a repeated creation gets its first answer also once its cell is deleted', async () => {
    const { ask } = accountOf(await place.soon(place.create({ ...REMOTE, objectStore: place.folder() })))
    const { id: source } = (await place.soon(ask('POST', '', {}))).json
    for (const [key, body] of Object.entries({ empty: {}, branched: { from: { cell_id: source } } })) {
      const create = () => place.soon(ask('POST', '', body, { 'idempotency-key': key }))
      const first = await create()
      expect(first.status).toBe(201)
      expect((await place.soon(ask('DELETE', `/${first.json['id']}`))).status).toBe(200)
      expect(await create()).toEqual(first)
    }
  })

  test('a creation is not acknowledged if the machine was lost before the cell was stored', async () => {
    const failing = new FailingStore(place.folder())
    const gated = new GatedStore(failing)
    const { store, key, ask } = accountOf(await place.soon(place.create({ ...REMOTE, objectStore: gated })))
    gated.gates = (call, at) => call === 'put' && at.startsWith('snapshots/') && !at.includes(store.id)
    const create = ['POST', '', {}, { 'idempotency-key': 'first' }] as const
    expect(await place.advanceUntil(ask(...create))).toMatchObject({ json: { code: 'not_replicated' } })
    await place.soon(store.core.catalogStored())
    const again = accountOf(await afterSuddenLoss(store, failing), key)
    expect(again.store.cells().cells).toHaveLength(1)
    const repeated = await place.soon(again.ask(...create))
    expect(repeated).toMatchObject({ status: 409, json: { code: 'no_backup' } })
  })

  test('nothing is acknowledged while the object store fails', async () => {
    const gated = new GatedStore(place.folder())
    const { store, ask } = accountOf(await place.soon(place.create({ ...REMOTE, objectStore: gated })))
    const existing = (await place.soon(ask('POST', '', {}))).json['id'] as string
    const ledger = createLedger(store)
    const file = path.join(place.root, 'export.db')
    await place.soon(ledger.export(file))
    gated.failure = 'object_store_unavailable'
    const answers = [
      await place.advanceUntil(ask('POST', '', { name: 'new' })),
      await place.advanceUntil(ask('PATCH', `/${existing}`, { name: 'renamed' })),
      await place.advanceUntil(ask('DELETE', `/${existing}`)),
    ]
    for (const { status, json } of answers)
      expect({ status, json }).toMatchObject({ status: 503, json: { code: 'not_replicated' } })
    const refused = await rejectedBy(place.advanceUntil(store.importCell(file, { name: 'imported' })))
    expect(refused.code).toBe('not_replicated')
    // It is on this machine: a look finds it.
    expect(store.cells({ name: 'imported' }).cells).toHaveLength(1)
    gated.open()
    await place.advanceUntil(store.close())
  })

  test('a change is not acknowledged if its cell is deleted before anybody looks for what to ship', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.soon(place.create({ ...REMOTE, objectStore: gated }))
    const [cell, other] = [createLedger(store), createLedger(store)]
    for (const { id } of [cell, other]) await place.soon(store.backups.snapshot(id))
    gated.gates = (call, key) => call === 'put' && key.startsWith('log/')
    addRow(other, 'in the object before')
    const before = other.replicated()
    await place.soon(gated.arrival())
    addRow(cell, 'unshipped')
    const refused = rejectedBy(cell.replicated())
    store.deleteCell(cell.id)
    gated.open()
    await place.soon(before)
    expect((await place.soon(refused)).code).toBe('not_replicated')
    await place.advanceUntil(store.close())
  })

  test('a change is not acknowledged if a restore replaces its cell before the change is stored', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.soon(place.create({ ...REMOTE, objectStore: gated }))
    const cell = createLedger(store)
    const { version } = await place.soon(store.backups.snapshot(cell.id))
    addRow(cell, 'stored')
    await place.soon(cell.replicated())
    gated.gates = (call, key) => call === 'put' && key.includes('/restored-')
    const restored = store.backups.restore(cell.id, { version })
    await place.soon(gated.arrival())
    addRow(cell, 'in no object')
    const refused = rejectedBy(cell.replicated())
    gated.open()
    await place.soon(restored)
    expect((await place.soon(refused)).code).toBe('not_replicated')
    expect(notes(cell)).toEqual([])
    addRow(cell, 'since')
    await place.soon(cell.replicated())
    await place.advanceUntil(store.close())
  })

  test.each([
    ['waits for its fsync', 'while the mark is stored'],
    ['waits for its turn', 'right before the switch'],
  ])('a commit that %s %s is not acknowledged if the restore replaces it', async (waitsFor) => {
    const gated = new GatedStore(place.folder())
    const store = await place.soon(place.create({ ...REMOTE, objectStore: gated }))
    const [cell, other] = [createLedger(store), createLedger(store)]
    const { version } = await place.soon(store.backups.snapshot(cell.id))
    addRow(cell, 'stored')
    await place.soon(cell.replicated())
    let refused: Promise<CellError> | undefined
    const commit = () => {
      refused = rejectedBy(cell.commit(() => addRow(cell, 'in no object')))
    }
    let endFsync = () => {}
    if (waitsFor === 'waits for its turn') {
      const { install } = CellInstaller.prototype
      vi.spyOn(CellInstaller.prototype, 'install').mockImplementationOnce(function (
        this: CellInstaller,
        ...of
      ) {
        commit()
        install.apply(this, of)
      })
    }
    gated.gates = (call, key) => call === 'put' && key.includes('/restored-')
    const restored = store.backups.restore(cell.id, { version })
    await place.soon(gated.arrival())
    if (waitsFor === 'waits for its fsync') {
      const held = Promise.withResolvers<void>()
      vi.spyOn(fs, 'fsync').mockImplementationOnce(((_descriptor, callback) => {
        endFsync = () => callback(null)
        held.resolve()
      }) as typeof fs.fsync)
      commit()
      // The cells of one turn share one fsync, or have one each outside of their COMMITs if only one of them has something to store.
      other.commit(() => {}).catch(() => {})
      await held.promise
    }
    gated.open()
    await place.soon(restored)
    endFsync()
    expect((await place.soon(refused as Promise<CellError>)).code).toBe('not_replicated')
    expect(notes(cell)).toEqual([])
    await place.advanceUntil(store.close())
  })

  // Promise 4: without its record nobody finds what is stored of the cell.
  test.each(['was just made', 'a restore has just brought back'])(
    'no change of a cell that %s is acknowledged before the catalog in the object store has the cell',
    async (how) => {
      const gated = new GatedStore(place.folder())
      const store = await place.soon(place.create({ ...REMOTE, objectStore: gated }))
      const returning = store.createCell()
      await place.soon(returning.commit(() => returning.kv.put('before', '0')))
      store.deleteCell(returning.id)
      await place.soon(store.core.catalogStored())
      let isFirst = true
      gated.gates = (call, key) => {
        if (call !== 'put' || !key.includes(store.id)) return false
        if (isFirst) {
          isFirst = false
          throw new CellError('object_store_unavailable', 'Once (injected).')
        }
        return true
      }
      let restored = Promise.resolve()
      if (how === 'a restore has just brought back') {
        restored = store.backups.restore(returning.id).then(() => {})
        await turnsUntil(() => store.findCell(returning.id)?.deletedAt === null, 'the cell is back')
      }
      const cell = how === 'was just made' ? store.createCell() : store.openCell(returning.id)
      const before = store.backedUpTo(cell.id) ?? 0
      let acknowledged = 0
      const commit = (key: string) => cell.commit(() => cell.kv.put(key, '1')).then(() => acknowledged++)
      const commits = [commit('first')]
      place.clock.advance(300)
      await turnsUntil(() => (store.backedUpTo(cell.id) ?? 0) > before, 'what is committed is stored')
      commits.push(commit('second'))
      for (let tries = 0; tries < 8; tries++) {
        place.clock.advance(300)
        await turnsUntil(() => gated.waiting > 0, 'the catalog waits for the object store')
        for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
      }
      const early = acknowledged
      gated.open()
      await place.soon(Promise.all([...commits, restored]))
      expect({ early, acknowledged }).toEqual({ early: 0, acknowledged: 2 })
      await place.advanceUntil(store.close())
    },
  )
})
