import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { KeptLog } from '../support/kept-log.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf, rejectedBy, thrownBy } from '../support/thrown.ts'
import { turnsUntil } from '../support/turns.ts'

/** A store with two cells, the first of which has garbage where a table was. */
async function openDamaged(openCellsMax = 4) {
  const log = new KeptLog()
  const objectStore = `file://${path.join(tempDirectory(), 'objects')}`
  const test = await openTestStore({ objectStore, log, openCellsMax })
  const [damaged, sound] = [test.store.createCell(), test.store.createCell()]
  for (const cell of [damaged, sound]) {
    cell.sql('CREATE TABLE t (a, b)')
    for (let i = 0; i < 200; i++) cell.sql('INSERT INTO t VALUES (?, zeroblob(1000))', [i])
    cell.kv.put('k', 'v')
  }
  const { version } = await test.store.backups.snapshot(damaged.id)
  await test.store.close()
  const file = new StorePaths(test.directory).cell(damaged.id).database
  const whole = fs.readFileSync(file)
  const handle = fs.openSync(file, 'r+')
  const { size } = fs.fstatSync(handle)
  for (let at = 8 * 4_096; at < size; at += 4_096)
    fs.writeSync(handle, Buffer.alloc(4_096, 0xa5), 0, 4_096, at)
  fs.closeSync(handle)
  await test.reopen()
  const store = test.store
  return {
    test,
    store,
    errors: log.errors,
    version,
    whole,
    damaged: store.openCell(damaged.id),
    sound: store.openCell(sound.id),
  }
}

describe('a cell whose file is damaged', () => {
  test.each([
    ['inside a hold', (_cell: Cell, tx: Cell) => tx],
    ['beside a hold', (cell: Cell) => cell],
  ])(
    'that is found %s, ends the hold: nothing of it remains, and each later use is refused',
    async (_what, reader) => {
      const { store, damaged, version } = await openDamaged()
      const waiting: Promise<unknown>[] = []
      const held = damaged.hold(async (tx) => {
        tx.kv.put('k', 'held')
        waiting.push(rejectedBy(damaged.commit(() => damaged.kv.put('k', 'waits'))))
        const reads = reader(damaged, tx)
        expect(codeOf(() => reads.sql('SELECT count(b) FROM t'))).toBe('cell_quarantined')
        for (const use of [() => tx.kv.get('k'), () => tx.kv.put('k', 'w'), () => damaged.kv.get('k')])
          expect(codeOf(use)).toBe('cell_quarantined')
        await turnsUntil(() => codeOf(() => tx.sql('SELECT 1')) === 'transaction_lost', 'the hold is over')
      })
      expect((await rejectedBy(held)).code).toBe('transaction_lost')
      expect(await Promise.all(waiting)).toMatchObject([{ code: 'cell_quarantined' }])
      await store.backups.restore(damaged.id, { version })
      expect(damaged.kv.get('k')).toBe('v')
      await damaged.hold(async (tx) => void tx.kv.put('k', 'again'))
      expect(damaged.kv.get('k')).toBe('again')
    },
  )

  test('is kept closed to everybody from the first sign on, and the log names it once', async () => {
    const { store, damaged, errors, version } = await openDamaged()
    expect(codeOf(() => damaged.sql('SELECT count(b) FROM t'))).toBe('cell_quarantined')
    const uses: (() => unknown)[] = [
      () => damaged.sql('SELECT 1'),
      () => damaged.kv.get('k'),
      () => damaged.kv.put('k', 'w'),
      () => damaged.transaction(() => 1),
      () => store.openCell(damaged.id).kv.get('k'),
    ]
    expect(uses.map(codeOf)).toEqual(uses.map(() => 'cell_quarantined'))
    expect(await rejectedBy(damaged.commit(() => 1))).toMatchObject({ code: 'cell_quarantined' })
    expect(await rejectedBy(store.backups.snapshot(damaged.id))).toMatchObject({ code: 'cell_quarantined' })
    expect(errors).toMatchObject([{ cellId: damaged.id }])
    await store.backups.restore(damaged.id, { version })
  })

  test('tells those who watch it that commits may have been missed', async () => {
    const { store, damaged, version } = await openDamaged()
    const stream = damaged.watch()
    stream.open()
    expect(stream.nextNow()).toMatchObject({ reason: 'start' })
    damaged.kv.get('k')
    expect(codeOf(() => damaged.sql('SELECT count(b) FROM t'))).toBe('cell_quarantined')
    expect(stream.nextNow()).toMatchObject({ reason: 'interrupted' })
    await store.backups.restore(damaged.id, { version })
    expect(stream.nextNow()).toMatchObject({ reason: 'restored' })
    damaged.kv.put('k', 'w')
    expect(stream.nextNow()).toMatchObject({ type: 'commit', keys: ['k'] })
  })

  test('does not disturb its neighbours, nor is it opened again behind their backs', async () => {
    const { store, damaged, sound, version } = await openDamaged(1)
    expect(codeOf(() => damaged.sql('SELECT count(b) FROM t'))).toBe('cell_quarantined')
    for (let i = 0; i < 5; i++) {
      sound.kv.incr('n')
      store.createCell().kv.put('k', 'v')
      expect(codeOf(() => damaged.kv.get('k'))).toBe('cell_quarantined')
    }
    await store.backups.restore(damaged.id, { version })
  })

  test('undoes the transaction in which it shows, and lets nothing follow', async () => {
    const { store, damaged, version } = await openDamaged()
    const work = () => {
      damaged.kv.put('k', 'w')
      try {
        damaged.sql('SELECT count(b) FROM t')
      } catch {}
      return damaged.kv.put('k', 'x')
    }
    expect(codeOf(() => damaged.transaction(work))).toBe('cell_quarantined')
    await store.backups.restore(damaged.id, { version })
    expect(damaged.kv.get('k')).toBe('v')
  })

  test('fails its whole group, each member with the reason', async () => {
    const { store, damaged, version } = await openDamaged()
    const settled = await Promise.allSettled([
      damaged.commit(() => damaged.kv.put('a', 'v')),
      damaged.commit(() => damaged.sql('SELECT count(b) FROM t')),
      damaged.commit(() => damaged.kv.put('b', 'v')),
    ])
    expect(settled).toMatchObject(settled.map(() => ({ reason: { code: 'cell_quarantined' } })))
    await store.backups.restore(damaged.id, { version })
  })

  test('is whole again after a restore', async () => {
    const { store, damaged, version } = await openDamaged()
    expect(codeOf(() => damaged.sql('SELECT count(b) FROM t'))).toBe('cell_quarantined')
    await store.backups.restore(damaged.id, { version })
    expect(damaged.sql('SELECT count(b) AS n FROM t').rows).toEqual([{ n: 200 }])
    damaged.kv.put('k', 'w')
    expect(damaged.kv.get('k')).toBe('w')
  })

  test('can be deleted', async () => {
    const { store, damaged } = await openDamaged()
    expect(codeOf(() => damaged.sql('SELECT count(b) FROM t'))).toBe('cell_quarantined')
    store.deleteCell(damaged.id)
    expect(codeOf(() => damaged.kv.get('k'))).toBe('cell_not_found')
  })

  test('is looked at once more after a restart, and stays closed; the store starts and closes with it', async () => {
    const { test, store, damaged, errors, version } = await openDamaged()
    expect(codeOf(() => damaged.sql('SELECT count(b) FROM t'))).toBe('cell_quarantined')
    const state = { reason: 'damaged', since: test.clock.now() }
    expect(store.openCell(damaged.id).quarantine).toEqual(state)
    const again = await test.reopen()
    const cell = again.openCell(damaged.id)
    expect(again.openCell(damaged.id).quarantine).toEqual(state)
    expect(codeOf(() => cell.kv.get('k'))).toBe('cell_quarantined')
    await turnsUntil(() => errors.length === 2, 'the check has ended')
    expect(thrownBy(() => cell.kv.get('k')).message).toContain('Restore the cell from a backup')
    expect(again.openCell(damaged.id).quarantine).toEqual(state)
    await again.backups.restore(damaged.id, { version })
    expect([cell.kv.get('k'), again.openCell(damaged.id).quarantine]).toEqual(['v', undefined])
  })

  test('that was mended by hand while the store was closed serves again after a look', async () => {
    const { test, damaged, whole } = await openDamaged()
    const file = new StorePaths(test.directory).cell(damaged.id).database
    expect(codeOf(() => damaged.sql('SELECT count(b) FROM t'))).toBe('cell_quarantined')
    await test.store.close()
    fs.writeFileSync(file, whole)
    for (const suffix of ['-wal', '-shm']) fs.rmSync(file + suffix, { force: true })
    const again = await test.reopen()
    expect(codeOf(() => again.openCell(damaged.id).kv.get('k'))).toBe('cell_quarantined')
    await turnsUntil(() => again.openCell(damaged.id).quarantine === undefined, 'the check has ended')
    expect(again.openCell(damaged.id).kv.get('k')).toBe('v')
  })

  test('that is no database at all cannot be opened, and takes no descriptor', async () => {
    const { test, store, sound } = await openDamaged()
    const file = new StorePaths(test.directory).cell(sound.id).database
    await store.close()
    fs.truncateSync(file, 100)
    const again = await test.reopen()
    for (let i = 0; i < 3; i++)
      expect(codeOf(() => again.openCell(sound.id).kv.get('k'))).toBe('cell_quarantined')
    again.deleteCell(sound.id)
    for (const { id } of again.cells().cells) again.deleteCell(id)
  })
})
