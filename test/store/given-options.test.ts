import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { ScratchPlace } from '../support/backup/scratch-store.ts'
import { filesBelow, tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy, thrownBy } from '../support/thrown.ts'

/** What a JavaScript program can pass where TypeScript would complain. */
const given = (value: unknown) => value as never

describe('a text or a number is no flag', () => {
  test.each<[options: object, field: string]>([
    [{ takeOver: 'false' }, 'takeOver'],
    [{ moveObjectStore: 'no' }, 'moveObjectStore'],
    [{ adopt: 'false' }, 'adopt'],
    [{ backups: { prune: 'false' } }, 'backups.prune'],
    [{ backups: { recoverInBackground: 'false' } }, 'backups.recoverInBackground'],
  ])('of a store: %o', async (options, field) => {
    const place = new ScratchPlace()
    const store = await place.create()
    await store.close()
    const before = filesBelow(place.data)
    // Its backups would go there from then on.
    const elsewhere = pathToFileURL(path.join(tempDirectory(), 'elsewhere')).href
    const error = await rejectedBy(
      CellStore.open(place.data, { objectStore: elsewhere, ...options } as StoreOptions),
    )
    expect(error).toMatchObject({ code: 'invalid_setting', details: { field } })
    expect(error.message).toMatch(/ must be true or false, but it is /)
    expect(filesBelow(place.data)).toEqual(before)
  })

  test.each(['true', 1])('of a statement that may only read: %o', async (readOnly) => {
    const store = await new ScratchPlace().create()
    const cell = store.createCell()
    cell.exec('CREATE TABLE t (a)')
    const insert = (options: object) => thrownBy(() => cell.sql('INSERT INTO t VALUES (1)', [], options))
    expect(insert({ readOnly })).toMatchObject({ code: 'invalid_request', details: { field: 'readOnly' } })
    expect(insert({ readOnly: undefined }).details.field).toBe('readOnly')
    expect(insert({ readOnly: true }).code).toBe('forbidden')
    expect(cell.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 0 }])
  })
})

test.each([{}, { info() {}, warn() {} }, console.log, 'stderr', null])(
  'a log without its functions is refused at the start: %o',
  async (log) => {
    const place = new ScratchPlace()
    expect(await rejectedBy(CellStore.create(place.data, { log: given(log) }))).toMatchObject({
      code: 'invalid_setting',
      details: { field: 'log' },
    })
    expect(fs.existsSync(place.data)).toBe(false)
  },
)

describe('undefined is not "for ever", "the newest" or "all"', () => {
  test('a time to live', async () => {
    const { kv } = (await new ScratchPlace().create()).createCell()
    kv.put('s', 'v', { ttlSeconds: 100 })
    expect(thrownBy(() => kv.expire('s', given(undefined)))).toMatchObject({
      code: 'invalid_ttl',
      details: { field: 'ttlSeconds' },
    })
    for (const put of [
      () => kv.put('s', 'w', given({ ttlSeconds: undefined })),
      () => kv.put('s', 'w', given({ ttlMs: undefined })),
      () => kv.put('s', 'w', given({ ifVersion: undefined })),
      () => kv.put(given([{ key: 's', value: 'w', ttlSeconds: undefined }])),
      () => kv.put(given([{ key: 's', value: 'w', ifVersion: undefined }])),
    ])
      expect(thrownBy(put).code).toBe('invalid_request')
    expect(kv.entry('s')).toMatchObject({ value: 'v', ttlSeconds: 100 })
    expect(kv.expire('s', null)).toMatchObject({ updated: true, ttlSeconds: -1 })
  })

  test('a version of a cell, or a moment', async () => {
    const store = await new ScratchPlace().create()
    const cell = store.createCell()
    await store.backups.snapshot(cell.id)
    cell.kv.put('k', 'newer than the backup')
    for (const field of ['version', 'timestamp', 'accountId']) {
      const wanted = given({ [field]: undefined })
      const refused = { code: 'invalid_request', details: { field } }
      expect(await rejectedBy(store.backups.restore(cell.id, wanted))).toMatchObject(refused)
      expect(await rejectedBy(store.backups.plan(cell.id, wanted))).toMatchObject(refused)
    }
    expect(cell.kv.get('k')).toBe('newer than the backup')
    await store.backups.restore(cell.id, { signal: undefined })
  })

  test('the account whose cells, the source of a new cell', async () => {
    const store = await new ScratchPlace().create()
    const owner = store.accounts.create().id
    store.createCell({ name: 'theirs', accountId: owner })
    const mine = given({ accountId: undefined })
    for (const call of [
      () => store.cells(mine),
      () => store.cell('theirs', mine),
      () => store.createCell(mine),
      () => store.findCellByName('theirs', mine),
    ])
      expect(thrownBy(call)).toMatchObject({ code: 'invalid_request', details: { field: 'accountId' } })
    expect((await rejectedBy(store.createCell(given({ from: undefined })))).details.field).toBe('from')
    expect(store.cells().cells).toHaveLength(1)
    expect(store.cells({ accountId: null, limit: undefined }).cells).toEqual([])
  })

  test('a plan of the versions that stay', async () => {
    const store = await new ScratchPlace().create()
    const { id } = store.createCell()
    await store.backups.snapshot(id)
    await store.retention?.setPlan(id, 'all:forever')
    const unset = store.retention?.setPlan(id, given(undefined)) as Promise<void>
    expect((await rejectedBy(unset)).code).toBe('invalid_setting')
    expect(await store.retention?.ownPlan(id)).toBe('all:forever')
  })
})

describe('a URL is no path', () => {
  test.each(['file:///tmp/x%20y', 'FILE:///tmp/x%20y'])('of a store: %s', async (url) => {
    const folder = tempDirectory()
    const before = process.cwd()
    process.chdir(folder)
    try {
      for (const start of ['create', 'open', 'openOrCreate'] as const)
        expect(await rejectedBy(CellStore[start](url))).toMatchObject({
          code: 'invalid_setting',
          message: 'directory must be a path, not a URL: write /tmp/x y.',
          details: { field: 'directory' },
        })
      expect(thrownBy(() => new FileObjectStore({ root: url })).details.field).toBe('root')
    } finally {
      process.chdir(before)
    }
    expect(fs.readdirSync(folder)).toEqual([])
  })

  test('of a file that is exported or imported', async () => {
    const store = await new ScratchPlace().create()
    const cell = store.createCell()
    expect(await rejectedBy(cell.export('file://host/x'))).toMatchObject({
      message: 'target must be a path, not a URL: write it without file:.',
      details: { field: 'target' },
    })
    expect((await rejectedBy(store.importCell('file:///x'))).details.field).toBe('source')
  })
})
