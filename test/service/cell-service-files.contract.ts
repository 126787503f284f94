import fs from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { damaged, foreign } from '../support/database-files.ts'
import { rejectedBy } from '../support/thrown.ts'
import type { MakeService, ServiceUnderTest } from './service-under-test.ts'

/** What a `CellService` promises of exports and imports, as tests. */
export function cellServiceFilesContract(name: string, make: MakeService): void {
  describe(`${name} keeps the contract of files through a cell service`, () => {
    let subject: ServiceUnderTest

    beforeAll(async () => {
      subject = await make({ hasObjects: true })
    })

    afterAll(async () => await subject.close())

    const paths = () => new StorePaths(path.join(subject.folder, 'data'))
    const spooled = () => {
      const { spool } = paths()
      const names = fs.existsSync(spool) ? fs.readdirSync(spool) : []
      return names.filter((each) => /^(ex|im)port-/.test(each))
    }
    const foldersOfCells = () => {
      const { cells } = paths()
      const parts = fs.existsSync(cells) ? fs.readdirSync(cells) : []
      return parts.flatMap((each) => fs.readdirSync(path.join(cells, each))).length
    }
    const sql = (id: string, text: string) => subject.service.execute(id, { op: 'sql', sql: text })

    test('an export has what was committed, and is imported with its entries as another cell', async () => {
      const { service, store } = subject
      const { id } = store.createCell()
      await sql(id, 'CREATE TABLE t (a)')
      await sql(id, 'INSERT INTO t VALUES (1), (zeroblob(3000000))')
      await service.execute(id, { op: 'kv.put', key: 'k', value: 'v', ttlSeconds: 600 })
      const exported = await service.exportCell(id)
      expect(fs.statSync(exported.path).size).toBe(exported.sizeBytes)
      const database = new Database(exported.path, { readonly: true })
      expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
      database.close()
      const copy = await service.importCell(fs.createReadStream(exported.path), { name: 'copy' })
      await exported.remove()
      expect(spooled()).toEqual([])
      expect(store.findCell(copy)).toMatchObject({ name: 'copy', deletedAt: null })
      expect((await sql(copy, 'SELECT length(a) AS n FROM t')).rows).toEqual([{ n: 1 }, { n: 3_000_000 }])
      expect(await service.execute(copy, { op: 'kv.get', key: 'k' })).toMatchObject({ value: 'v' })
      expect(await service.backups.incremental(copy)).toMatchObject({ baseVersion: null })
      await sql(copy, 'DELETE FROM t')
      await service.backups.restore(copy)
      expect((await sql(copy, 'SELECT count(*) AS n FROM t')).rows).toEqual([{ n: 2 }])
      await service.deleteCell(copy)
    })

    test('an import is a whole cell or nothing', async () => {
      const { service, store } = subject
      const known = [store.cells().cells.length, foldersOfCells()]
      const wrong = [
        [damaged(foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(9000))')), 'invalid_database'],
        [foreign('CREATE VIEW v AS SELECT * FROM _cell_kv'), 'invalid_database'],
      ] as const
      for (const [file, code] of wrong) {
        const refused = await rejectedBy(service.importCell(fs.createReadStream(file)))
        expect(refused.code).toBe(code)
      }
      const broken = Readable.from(
        (function* () {
          yield Buffer.from('SQLite format 3\0')
          throw new Error('The client went away.')
        })(),
      )
      await expect(service.importCell(broken)).rejects.toThrow('The client went away.')
      expect([store.cells().cells.length, foldersOfCells()]).toEqual(known)
      expect(spooled()).toEqual([])
    })

    test('an export ends with its signal, and leaves nothing', async () => {
      const { id } = subject.store.createCell()
      await sql(id, 'CREATE TABLE t (a)')
      await sql(id, 'INSERT INTO t VALUES (zeroblob(5000000))')
      const signal = AbortSignal.abort(new Error('enough'))
      await expect(subject.service.exportCell(id, { signal })).rejects.toThrow()
      expect(spooled()).toEqual([])
      await sql(id, 'DELETE FROM t')
    })

    test('an export of a cell that does not exist is refused', async () => {
      const unknown = '00000000-0000-4000-8000-000000000000'
      expect((await rejectedBy(subject.service.exportCell(unknown))).code).toBe('cell_not_found')
    })
  })
}
