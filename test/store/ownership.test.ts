import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { readOwner } from '../../src/catalog/directory-lock.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import { ended, firstLine, startChild } from '../support/child.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'

describe('one owner a directory (invariant 2)', () => {
  test('another process is refused, with the owner’s pid, and may have it once the owner has ended', async () => {
    const directory = path.join(tempDirectory(), 'data')
    const child = startChild('hold-store.ts', directory)
    expect(await firstLine(child)).toBe('holds')
    for (const start of [CellStore.open, CellStore.openOrCreate]) {
      const error = await rejectedBy(start(directory))
      expect(error).toMatchObject({
        code: 'store_locked',
        message: expect.stringContaining(String(child.pid)),
      })
    }
    expect(await rejectedBy(CellStore.create(directory))).toMatchObject({ code: 'store_exists' })
    child.stdin.end()
    await ended(child)
    await (await CellStore.open(directory)).close()
  })

  test('one that was killed owns nothing any more', async () => {
    const directory = path.join(tempDirectory(), 'data')
    const child = startChild('hold-store.ts', directory)
    await firstLine(child)
    expect(await rejectedBy(CellStore.open(directory))).toMatchObject({ code: 'store_locked' })
    child.kill('SIGKILL')
    await ended(child)
    // What it wrote of itself is still there, and does not count.
    expect(readOwner(new StorePaths(directory))?.pid).toBe(child.pid)
    await (await CellStore.open(directory)).close()
  })

  test('the same process is refused as well, and being refused takes nothing from the owner', async () => {
    const { store, directory } = await openTestStore()
    for (let i = 0; i < 3; i++) {
      expect(await rejectedBy(CellStore.open(directory))).toMatchObject({
        code: 'store_locked',
        message: expect.stringContaining(String(process.pid)),
      })
    }
    const child = startChild('hold-store.ts', directory)
    child.stderr.unpipe()
    await ended(child)
    expect(child.exitCode).toBe(1)
    store.createCell().kv.put('k', 'v')
  })

  test('a link to the directory is the same directory', async () => {
    const { directory } = await openTestStore()
    const link = path.join(tempDirectory(), 'link')
    fs.symlinkSync(directory, link)
    expect(await rejectedBy(CellStore.open(link))).toMatchObject({ code: 'store_locked' })
  })

  test('who it is stands in owner.json: pid, start time, socket; and no more after the end', async () => {
    const { store, directory } = await openTestStore()
    const paths = new StorePaths(directory)
    expect(readOwner(paths)).toEqual({
      pid: process.pid,
      startTime: expect.any(Number),
      socket: null,
      workers: [],
    })
    store.core.publishSocket('/run/cellstore.sock')
    expect(readOwner(paths)).toMatchObject({ pid: process.pid, socket: '/run/cellstore.sock' })
    await store.close()
    expect(readOwner(paths)).toBeUndefined()
  })

  test('a lock file that was replaced while it was being locked is no lock', async () => {
    const { directory } = await openTestStore()
    const { lock } = new StorePaths(directory)
    fs.renameSync(lock, `${lock}.old`)
    // Whoever comes now locks a new file. That can't be helped; but the owner's own is still locked.
    fs.renameSync(`${lock}.old`, lock)
    expect(await rejectedBy(CellStore.open(directory))).toMatchObject({ code: 'store_locked' })
  })
})
