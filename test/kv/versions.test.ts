import { expect, test } from 'vitest'
import type { Kv } from '../../src/kv/kv.ts'
import { ScratchPlace } from '../support/backup/scratch-store.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf } from '../support/thrown.ts'

const versionOf = (kv: Kv) => kv.entry('k')?.version

test('every change of an entry gives it another version, and returns it', async () => {
  const { clock, cell } = await openTestCell()
  const { kv } = cell
  const changes: (() => { version: string | null } | undefined)[] = [
    () => kv.put('k', '1'),
    () => kv.put('k', '1'),
    () => kv.put('k', '1', { keepTtl: true }),
    () => kv.put('k', '1', { ifVersion: '*' }),
    () => kv.incrEntry('k', 0),
    () => kv.expire('k', 60),
    () => kv.expire('k', 60),
    () => kv.put([{ key: 'k', value: '1' }])[0],
    () => kv.putJson('k', 1),
    () => {
      kv.delete('k')
      return kv.put('k', '1', { ifVersion: null })
    },
    () => {
      kv.getdel('k')
      return kv.incrEntry('k')
    },
    () => {
      kv.expire('k', 1)
      clock.step(1_000)
      return kv.put('k', '1', { ifVersion: null })
    },
  ]
  const versions = changes.map((change) => {
    const returned = change()?.version
    expect(versionOf(kv)).toBe(returned)
    return returned
  })
  expect(new Set(versions).size).toBe(changes.length)
})

test('all reads of an entry show the same version, and none changes it', async () => {
  const { kv } = (await openTestCell()).cell
  const { version } = kv.put('k', 'v', { ttlSeconds: 60 })
  kv.get('k')
  kv.ttl('k')
  expect([versionOf(kv), kv.entry(['k'])[0]?.version]).toEqual([version, version])
  for (const values of [true, false]) expect(kv.list({ values }).entries[0]?.version).toBe(version)
})

test('a change that was rolled back used its version up', async () => {
  const { cell } = await openTestCell()
  cell.kv.put('k', '1')
  let undone = ''
  const transaction = () =>
    cell.transaction(() => {
      undone = cell.kv.put('k', '2').version
      throw new Error('undo')
    })
  expect(transaction).toThrow('undo')
  expect(cell.kv.put('k', '3').version).not.toBe(undone)
  expect(codeOf(() => cell.kv.put('k', '4', { ifVersion: undone }))).toBe('precondition_failed')
})

test('a version lasts while the cell is closed and opened, and a new one follows', async () => {
  const opened = await openTestCell()
  const versions = [opened.cell.kv.put('k', '0').version]
  for (let i = 1; i < 6; i++) {
    const { kv } = (await opened.reopen()).openCell(opened.cell.id)
    expect(versionOf(kv)).toBe(versions.at(-1))
    versions.push(kv.put('k', String(i), { ifVersion: versions.at(-1) as string }).version)
  }
  expect(new Set(versions).size).toBe(versions.length)
})

test('after a restore no version from before is valid for another value', async () => {
  const place = new ScratchPlace()
  const store = await place.create()
  const { id, kv } = store.createCell()
  const kept = kv.put('k', 'kept').version
  const { version } = await store.backups.snapshot(id)
  // As many changes before the restore as after it: a counter in the file would come to the same numbers.
  const lost = ['a', 'b', 'c'].map((value) => kv.put('k', value).version)
  await store.backups.restore(id, { version })
  // Who has read the restored entry has what is there.
  expect(kv.entry('k')).toMatchObject({ value: 'kept', version: kept })
  for (const value of ['x', 'y', 'z', 'w']) {
    for (const ifVersion of lost) {
      expect(codeOf(() => kv.put('k', 'lost update', { ifVersion }))).toBe('precondition_failed')
    }
    kv.put('k', value)
  }
  expect(kv.get('k')).toBe('w')
})
