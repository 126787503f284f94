import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { CellError } from '../../src/errors.ts'
import { leftOvers } from '../support/database-files.ts'
import { rejectedBy } from '../support/thrown.ts'
import type { MakeService, ServiceUnderTest } from './service-under-test.ts'

/** What a `CellService` promises of new cells with a state of another cell, as tests. */
export function cellServiceBranchesContract(name: string, make: MakeService): void {
  describe(`${name} keeps the contract of new cells from backups`, () => {
    let subject: ServiceUnderTest
    let id: string

    beforeAll(async () => {
      subject = await make({ hasObjects: true })
    })

    afterAll(async () => await subject.close())

    beforeEach(async () => {
      id = subject.store.createCell({ durability: 'relaxed' }).id
      await put(id, 'first')
    })

    const put = (cellId: string, value: string) =>
      subject.service.execute(cellId, { op: 'kv.put', key: 'k', value })
    const value = async (cellId: string) =>
      (await subject.service.execute(cellId, { op: 'kv.get', key: 'k' }))?.value
    const cells = () => subject.store.cells().cells.length
    // The archiver has a folder of its own in the spool, named after its process.
    const left = () =>
      leftOvers({ directory: path.join(subject.folder, 'data') }, cells()).filter(
        (each) => !/^\d+$/.test(each),
      )
    // A new cell's first backup is made unasked, and has a file in the spool meanwhile.
    const expectNothingNew = async (known: number) => {
      expect(cells()).toBe(known)
      await expect.poll(left).toEqual([])
    }

    test('a new cell is as the other is now, or was in a version or at a time; the other stays', async () => {
      const { service, store } = subject
      const first = await service.backups.snapshot(id)
      await put(id, 'second')
      const second = await service.backups.incremental(id)
      await put(id, 'in no version')
      const present = await service.branchCell({ from: { cellId: id }, name: `present of ${id}` })
      const older = await service.branchCell({ from: { cellId: id, version: first.version } })
      const timed = await service.branchCell({ from: { cellId: id, timestamp: second.createdAt } })
      expect(new Set([id, present.id, older.id, timed.id]).size).toBe(4)
      expect(await Promise.all([present.id, older.id, timed.id, id].map(value))).toEqual([
        'in no version',
        'first',
        'second',
        'in no version',
      ])
      expect(store.findCell(present.id)).toMatchObject({
        name: `present of ${id}`,
        durability: 'relaxed',
        deletedAt: null,
      })
      expect((await service.backups.list(id, {})).backups).toHaveLength(2)
      await put(present.id, 'its own')
      expect(await value(id)).toBe('in no version')
    })

    test('a time between two backups is restored, undone, planned, listed, and made a cell, with each commit up to it', async () => {
      const { service } = subject
      const { version } = await service.backups.snapshot(id)
      await put(id, 'second')
      const between = Date.now()
      // A commit's time is its millisecond.
      await expect.poll(() => Date.now()).toBeGreaterThan(between)
      await put(id, 'third')

      const { id: now } = await service.branchCell({ from: { cellId: id, timestamp: Date.now() } })
      const { id: then } = await service.branchCell({ from: { cellId: id, timestamp: between } })
      expect([await value(now), await value(then), await value(id)]).toEqual(['third', 'second', 'third'])

      const plan = await service.backups.plan(id, { timestamp: between })
      expect(plan).toMatchObject({ version, kind: 'snapshot' })
      expect(plan.objects[0]).toEqual({ key: version, sizeBytes: expect.any(Number) })
      expect(plan.objects.length).toBeGreaterThan(1)
      const bytes = plan.objects.map(({ sizeBytes }) => sizeBytes)
      expect(plan.sizeBytes).toBe(bytes.reduce((sum, each) => sum + each, 0))
      expect(plan.sizeOfLog).toBe(plan.sizeBytes - (bytes[0] as number))
      expect(plan.timestamp).toBeLessThanOrEqual(between)

      const { timestamp, replacedAt } = await service.backups.restore(id, { timestamp: between })
      expect([timestamp, await value(id)]).toEqual([plan.timestamp, 'second'])
      const { restorable } = await service.backups.list(id, {})
      const holds = (time: number) => restorable.some(({ from, to }) => from <= time && time <= to)
      expect([holds(timestamp as number), holds(replacedAt as number)]).toEqual([true, true])
      await service.backups.restore(id, { timestamp: replacedAt as number })
      expect(await value(id)).toBe('third')
    })

    test('the new cell has a history of its own: its first backup is a base, made at once, from which it comes back', async () => {
      const { service } = subject
      await service.backups.snapshot(id)
      const { id: made } = await service.branchCell({ from: { cellId: id }, durability: 'full' })
      expect(subject.store.findCell(made)).toMatchObject({ durability: 'full' })
      const backups = async () => (await service.backups.list(made, {})).backups
      await expect.poll(backups).toEqual([expect.objectContaining({ baseVersion: null })])
      await put(made, 'changed')
      await service.backups.restore(made)
      expect(await value(made)).toBe('first')
    })

    test('nothing in the new file tells of the cell that it was', async () => {
      const { service } = subject
      await service.execute(id, {
        op: 'batch',
        operations: [{ op: 'kv.put', key: 'k', value: 'in a transaction' }],
      })
      await service.backups.snapshot(id)
      const { id: made } = await service.branchCell({ from: { cellId: id } })
      const file = new StorePaths(path.join(subject.folder, 'data')).cell(made).database
      const copy = path.join(subject.folder, 'looked-at.db')
      fs.copyFileSync(file, copy)
      const database = new Database(copy)
      expect(database.prepare('SELECT key FROM _cell_meta').pluck().all()).toEqual(['schema_version'])
      database.close()
      fs.rmSync(copy)
      expect(await value(made)).toBe('in a transaction')
    })

    test('a deleted cell is a source too, as long as it has backups', async () => {
      const { service, store } = subject
      await service.backups.snapshot(id)
      await service.deleteCell(id)
      const { id: made } = await service.branchCell({ from: { cellId: id } })
      expect(await value(made)).toBe('first')
      expect(store.findCell(id)?.deletedAt).not.toBeNull()
      await store.purgeCell(id)
      const known = cells()
      const refused = await rejectedBy(service.branchCell({ from: { cellId: id } }))
      expect(refused.code).toBe('backup_not_found')
      await expectNothingNew(known)
      expect(await value(made)).toBe('first')
    })

    test('two new cells from one cell at once are two cells', async () => {
      const { service } = subject
      await service.backups.snapshot(id)
      const made = await Promise.all([1, 2].map(() => service.branchCell({ from: { cellId: id } })))
      expect(new Set(made.map((each) => each.id)).size).toBe(2)
      for (const each of made) expect(await value(each.id)).toBe('first')
    })

    test('a damaged backup makes no cell, and leaves nothing', async () => {
      const { service } = subject
      const { version } = await service.backups.snapshot(id)
      const object = path.join(subject.folder, 'objects', version)
      fs.chmodSync(object, 0o600)
      const bytes = fs.readFileSync(object)
      const middle = bytes.length >> 1
      bytes[middle] = (bytes[middle] ?? 0) ^ 0xff
      fs.writeFileSync(object, bytes)
      const known = cells()
      const refused = await rejectedBy(service.branchCell({ from: { cellId: id } }))
      expect(refused.code).toBe('backup_corrupt')
      await expectNothingNew(known)
    })

    test('one that is not permitted when it is built, or that nobody waits for, makes no cell', async () => {
      const { service } = subject
      await service.backups.snapshot(id)
      const known = cells()
      const asked: number[] = []
      const revoked = () => new CellError('unauthorized', 'The key was revoked.')
      const permit = (bytes: number) => {
        asked.push(bytes)
        if (bytes > 0) throw revoked()
      }
      await expect(service.branchCell({ from: { cellId: id }, permit })).rejects.toThrow('revoked')
      expect(asked).toEqual([0, expect.toSatisfy((bytes: number) => bytes >= 4_096)])
      const atItsTurn = () => {
        throw revoked()
      }
      await expect(service.branchCell({ from: { cellId: id }, permit: atItsTurn })).rejects.toThrow('revoked')
      const signal = AbortSignal.abort(new Error('enough'))
      await expect(service.branchCell({ from: { cellId: id }, signal })).rejects.toThrow()
      await expectNothingNew(known)
    })

    test('what is wrong with a source is said, and makes no cell', async () => {
      const { service, store } = subject
      const account = store.accounts.create().id
      const { version } = await service.backups.snapshot(id)
      const known = cells()
      const codes = [
        [{ cellId: '00000000-0000-4000-8000-000000000000' }, 'cell_not_found'],
        [{ cellId: store.id }, 'cell_not_found'],
        [{ cellId: '../..' }, 'cell_not_found'],
        [{ cellId: id, version: 'latest' }, 'invalid_version'],
        [{ cellId: id, version: version.replace(id, account) }, 'backup_not_found'],
        [{ cellId: id, version, timestamp: 1 }, 'invalid_request'],
        [{ cellId: id, timestamp: Number.NaN }, 'invalid_request'],
        [{ cellId: id, timestamp: 1 }, 'backup_not_found'],
      ] as const
      for (const [from, code] of codes)
        expect([from, (await rejectedBy(service.branchCell({ from }))).code]).toEqual([from, code])
      const others = await rejectedBy(service.branchCell({ from: { cellId: id }, accountId: account }))
      expect(others.code).toBe('cell_not_found')
      await expectNothingNew(known)
    })

    test('without an object store there is no source', async () => {
      const bare = await make({ hasObjects: false })
      onTestFinished(() => bare.close())
      const { id: source } = bare.store.createCell()
      const refused = await rejectedBy(bare.service.branchCell({ from: { cellId: source } }))
      expect(refused.code).toBe('object_store_not_configured')
    })

    test('a plan names what a restore would read, and changes nothing', async () => {
      const { service } = subject
      const snapshot = await service.backups.snapshot(id)
      await put(id, 'second')
      const incremental = await service.backups.incremental(id)
      await put(id, 'third')
      const objects = [snapshot, incremental].map(({ version, sizeBytes }) => ({ key: version, sizeBytes }))
      const plan = await service.backups.plan(id)
      // The cell's own time of the cut, which is read a moment before the wall clock.
      expect(plan.timestamp).toBeGreaterThan(snapshot.createdAt - 1)
      expect(plan.timestamp).toBeLessThanOrEqual(incremental.createdAt)
      expect(plan).toMatchObject({
        version: incremental.version,
        kind: 'incremental',
        objects,
        sizeBytes: snapshot.sizeBytes + incremental.sizeBytes,
        sizeOfLog: 0,
      })
      expect(await service.backups.plan(id, { timestamp: snapshot.createdAt })).toMatchObject({
        version: snapshot.version,
        objects: objects.slice(0, 1),
      })
      expect(await value(id)).toBe('third')
      const both = service.backups.plan(id, { version: snapshot.version, timestamp: 1 })
      expect((await rejectedBy(both)).code).toBe('invalid_request')
    })
  })
}
