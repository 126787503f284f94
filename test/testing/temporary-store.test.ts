import fs from 'node:fs'
import { expect, onTestFinished, test, vi } from 'vitest'
import { SteppedClock, temporaryStore } from '../../src/testing/index.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test('A temporary store works like any other, with backups', async () => {
  await using temporary = await temporaryStore()
  const { store } = temporary
  const cell = store.createCell()
  cell.kv.put('k', 'v')
  const { version } = await store.backups.snapshot(cell.id)
  cell.kv.delete('k')
  await store.backups.restore(cell.id, { version })
  expect(cell.kv.get('k')).toBe('v')
})

test('Its directory is gone with it', async () => {
  const temporary = await temporaryStore()
  const { store, directory } = temporary
  store.createCell().kv.put('k', 'v')
  expect(fs.readdirSync(directory)).toContain('data')
  await Promise.all([temporary.close(), temporary[Symbol.asyncDispose]()])
  expect(fs.existsSync(directory)).toBe(false)
  expect(() => store.createCell()).toThrow('closed')
})

test('No directory stays if the store can not be made', async () => {
  const folder = tempDirectory()
  vi.stubEnv('TMPDIR', folder)
  onTestFinished(() => void vi.unstubAllEnvs())
  await expect(temporaryStore({ objectStore: 'ftp://x' })).rejects.toMatchObject({ code: 'invalid_setting' })
  expect(fs.readdirSync(folder)).toEqual([])
})

test('With a stepped clock, an entry expires when the test says so', async () => {
  const clock = new SteppedClock()
  await using temporary = await temporaryStore({ clock })
  const { kv } = temporary.store.createCell()
  kv.put('session', 'Ann', { ttlSeconds: 60 })
  clock.advance(59_999)
  expect(kv.get('session')).toBe('Ann')
  clock.advance(1)
  expect(kv.get('session')).toBeUndefined()
})

test('Backups, restores and the end of a store need no step of its clock', async () => {
  await using temporary = await temporaryStore({ clock: new SteppedClock() })
  const { store } = temporary
  const cell = store.createCell()
  cell.kv.put('k', '1')
  const { version } = await store.backups.snapshot(cell.id)
  for (const value of ['2', '3']) {
    cell.kv.put('k', value)
    await store.backups.restore(cell.id, { version })
    expect(cell.kv.get('k')).toBe('1')
  }
  cell.kv.put('k', '4')
})
