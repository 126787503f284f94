import fs from 'node:fs/promises'
import { describe, expect, test, vi } from 'vitest'
import { toBackupError } from '../../../src/backup/archive/backup-errors.ts'
import { Segments } from '../../../src/backup/changes/log/segments.ts'
import { CellError } from '../../../src/errors.ts'
import { FailingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: injected, write '/srv/secret/path'`), { code, syscall: 'write' })
}

/** Lets the next write through any file handle fail. */
async function failNextWrite(code: string): Promise<void> {
  const handle = await fs.open('/dev/null', 'w')
  vi.spyOn(Object.getPrototypeOf(handle), 'write').mockRejectedValueOnce(systemError(code))
  await handle.close()
}

describe('A failure on this machine has its own code, and no path in its message (invariant 12):', () => {
  test.each([
    ['ENOSPC', 'disk_full'],
    ['EDQUOT', 'disk_full'],
    ['EMFILE', 'busy'],
    ['ENOMEM', 'busy'],
    ['EIO', 'internal'],
    ['EACCES', 'internal'],
  ])('%s is %s', (code, expected) => {
    const error = toBackupError(systemError(code))
    expect(error.code).toBe(expected)
    expect(error.message).not.toContain('secret')
    expect(error.cause).toBeInstanceOf(Error)
  })

  test.each([
    ['SQLITE_FULL', 'disk_full'],
    ['SQLITE_IOERR_SHMSIZE', 'disk_full'],
    ['SQLITE_NOMEM', 'busy'],
    ['SQLITE_CANTOPEN', 'busy'],
    ['SQLITE_IOERR_WRITE', 'internal'],
  ])('%s is %s', (code, expected) => {
    expect(toBackupError(Object.assign(new Error('injected'), { code })).code).toBe(expected)
  })

  test('anything else is a bug of ours, and a CellError stays what it is', () => {
    expect(toBackupError(new TypeError('x is not a function')).code).toBe('internal')
    expect(toBackupError('thrown text').code).toBe('internal')
    const own = new CellError('busy', 'mine')
    expect(toBackupError(own)).toBe(own)
    expect(toBackupError(own, new AbortController().signal)).toBe(own)
  })

  test('a cancelled call is busy, with any error that the cancelling caused', () => {
    expect(toBackupError(systemError('EBADF'), AbortSignal.abort())).toMatchObject({ code: 'busy' })
    expect(toBackupError(new CellError('object_store_unavailable', 'x'), AbortSignal.abort())).toMatchObject({
      code: 'busy',
    })
  })
})

describe('A backup that fails leaves nothing behind, and the next one is right:', () => {
  test('when the spool cannot be written', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let i = 0; i < 4; i++) addRow(cell, `row ${i}`, 1_000_000)
    await store.core.catalogStored()
    await failNextWrite('ENOSPC')
    expect((await rejectedBy(store.backups.snapshot(cell.id))).code).toBe('disk_full')
    expect(filesBelow(place.data).filter((file) => file.startsWith('spool'))).toEqual([])
    expect(filesBelow(place.objects).filter((file) => file.includes(cell.id))).toEqual([])
    const { version } = await store.backups.incremental(cell.id)
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toHaveLength(4)
  })

  test('when a kept log is gone by the time it is read', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'one')
    const { list } = Segments.prototype
    vi.spyOn(Segments.prototype, 'list').mockImplementation(function (this: Segments) {
      return list.call(this).map((segment) => ({ ...segment, path: `${segment.path}.gone` }))
    })
    expect((await rejectedBy(store.backups.incremental(cell.id))).code).toBe('internal')
    vi.restoreAllMocks()
    const { version } = await store.backups.incremental(cell.id)
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(['one'])
  })

  test('whichever call to the object store fails, before or after it was carried out', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing, backups: { keep: 'all:1h' } })
    const cell = createLedger(store)
    const states = new Map<string, number>()
    for (const afterTheFact of [false, true]) {
      failing.afterTheFact = afterTheFact
      for (let n = 1; n < 12; n++) {
        addRow(cell, `row ${states.size}`, 5_000)
        failing.failFromHere(n)
        const kind = n % 4 === 0 ? 'snapshot' : 'incremental'
        const result = await store.backups[kind](cell.id).catch((error) => error)
        if (result instanceof Error) expect(result).toMatchObject({ code: 'object_store_unavailable' })
        failing.failAt = 0
        const { version } = await store.backups.incremental(cell.id)
        states.set(version, notes(cell).length)
      }
    }
    const { backups } = await store.backups.list(cell.id)
    expect(backups.length).toBeGreaterThanOrEqual(3)
    for (const { version } of backups) {
      await store.backups.restore(cell.id, { version })
      const expected = states.get(version)
      if (expected !== undefined) expect(notes(cell)).toHaveLength(expected)
    }
  })
})
