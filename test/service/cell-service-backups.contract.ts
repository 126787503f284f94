import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { turnsUntil } from '../support/turns.ts'
import type { MakeService, ServiceUnderTest } from './service-under-test.ts'

/** What a `CellService` promises of backups, as tests. */
export function cellServiceBackupsContract(name: string, make: MakeService): void {
  describe(`${name} keeps the contract of backups through a cell service`, () => {
    let subject: ServiceUnderTest
    let id: string

    beforeAll(async () => {
      subject = await make({ hasObjects: true })
    })

    afterAll(async () => await subject.close())

    beforeEach(async () => {
      id = subject.store.createCell().id
      await put('first')
    })

    const put = (value: string) => subject.service.execute(id, { op: 'kv.put', key: 'k', value })
    const value = async () => (await subject.service.execute(id, { op: 'kv.get', key: 'k' }))?.value
    const versionsOf = async () => {
      const { backups } = await subject.service.backups.list(id, {})
      return backups.map(({ version }) => version)
    }

    test('a snapshot, an incremental on it, the list of both, and a restore to either', async () => {
      const { service } = subject
      const phases = new Set<string>()
      const snapshot = await service.backups.snapshot(id, { onProgress: ({ phase }) => phases.add(phase) })
      expect(snapshot).toMatchObject({ kind: 'snapshot', sha256: expect.stringMatching(/^[0-9a-f]{64}$/) })
      expect([...phases]).toContain('upload')
      await put('second')
      const incremental = await service.backups.incremental(id)
      expect(incremental).toMatchObject({ kind: 'incremental', baseVersion: snapshot.version })
      expect(await versionsOf()).toEqual([incremental.version, snapshot.version])
      await put('third')
      // Without a name, the newest one. A restored cell gets one more by itself.
      expect(await service.backups.restore(id)).toMatchObject({ version: incremental.version })
      expect(await value()).toBe('second')
      await put('written after it')
      expect(await value()).toBe('written after it')
      expect(await service.backups.restore(id, { version: snapshot.version })).toMatchObject({
        version: snapshot.version,
        kind: 'snapshot',
      })
      expect(await value()).toBe('first')
    })

    test('a recovery of a cell that is here changes nothing; of one without a backup it says so', async () => {
      const { service, store } = subject
      await service.backups.snapshot(id)
      await put('second')
      await service.backups.recoverIfLost(id, 'requested')
      expect(await value()).toBe('second')
      await expect(service.backups.recoverIfLost(store.id, 'requested')).rejects.toMatchObject({
        code: 'cell_not_found',
      })
    })

    test('a cell whose local data is lost comes back by its recovery, which uses may share', async () => {
      const first = await make({ hasObjects: true })
      const [kept, never] = [first.store.createCell().id, first.store.createCell().id]
      await first.service.execute(kept, { op: 'kv.put', key: 'k', value: 'kept' })
      await first.service.backups.snapshot(kept)
      await first.close()
      const paths = new StorePaths(path.join(first.folder, 'data'))
      for (const lost of [kept, never]) fs.rmSync(paths.cell(lost).directory, { recursive: true })
      // Not the folder of all cells: then it would be an unmounted disk.
      fs.mkdirSync(path.join(paths.cells, 'left'), { recursive: true })
      const second = await make({ hasObjects: true, folder: first.folder })
      onTestFinished(() => second.close())
      const get = { op: 'kv.get', key: 'k' } as const
      const [, entry] = await Promise.all([
        second.service.backups.recoverIfLost(kept, 'requested'),
        second.service.execute(kept, get),
        second.service.backups.recoverIfLost(kept, 'requested'),
      ])
      expect(entry?.value).toBe('kept')
      await expect(second.service.backups.recoverIfLost(never, 'requested')).rejects.toMatchObject({
        code: 'no_backup',
      })
    })

    test('a deleted cell comes back by a restore, and serves again', async () => {
      const { service, store } = subject
      await service.backups.snapshot(id)
      await service.deleteCell(id)
      expect(store.findCell(id)?.deletedAt).not.toBeNull()
      await service.backups.restore(id)
      expect(store.findCell(id)?.deletedAt).toBeNull()
      expect(await value()).toBe('first')
      await put('after')
      await service.deleteCell(id)
      await expect(value()).rejects.toMatchObject({ code: 'cell_not_found' })
      await service.backups.restore(id)
      expect(await value()).toBe('after')
    })

    // Invariant 1: what an answer has promised is in what a restore brings back.
    test('a restore of a deleted cell has every write that was acknowledged, also those beside the deletion', async () => {
      const { service } = subject
      const acknowledged: string[] = []
      const write = async (writer: number) => {
        for (let n = 0; ; n++) {
          const key = `k${writer}.${n}`
          await service.execute(id, { op: 'kv.put', key, value: 'v' })
          acknowledged.push(key)
        }
      }
      const writers = Promise.allSettled([0, 1, 2, 3].map(write))
      await turnsUntil(() => acknowledged.length > 20, 'writes are acknowledged')
      await service.deleteCell(id)
      for (const writer of await writers)
        expect(writer).toMatchObject({ status: 'rejected', reason: { code: 'cell_not_found' } })
      await service.backups.restore(id)
      const { rows } = await service.execute(id, { op: 'sql', sql: 'SELECT key FROM cell_kv' })
      const found = new Set((rows as { key: string }[]).map(({ key }) => key))
      expect(acknowledged.filter((key) => !found.has(key))).toEqual([])
    })

    test('a version that is not there is not restored, and the cell stays as it was', async () => {
      const { service } = subject
      const { version } = await service.backups.snapshot(id)
      await put('kept')
      const other = version.replace(/\d(?=\D*$)/, (digit) => String((Number(digit) + 1) % 10))
      await expect(service.backups.restore(id, { version: other })).rejects.toMatchObject({
        code: expect.stringMatching(/^(backup_not_found|invalid_version)$/),
      })
      expect(await value()).toBe('kept')
    })

    test('a cell whose local data is lost comes back by its first use (invariant 14)', async () => {
      const first = await make({ hasObjects: true })
      const cellId = first.store.createCell().id
      const get = { op: 'kv.get', key: 'k' } as const
      await first.service.execute(cellId, { op: 'kv.put', key: 'k', value: 'kept' })
      await first.service.backups.snapshot(cellId)
      await first.close()
      fs.rmSync(new StorePaths(path.join(first.folder, 'data')).cell(cellId).directory, { recursive: true })
      const second = await make({ hasObjects: true, folder: first.folder })
      onTestFinished(() => second.close())
      const [entry, again] = await Promise.all([
        second.service.execute(cellId, get),
        second.service.execute(cellId, get),
      ])
      expect([entry?.value, again?.value]).toEqual(['kept', 'kept'])
      expect((await second.service.describe(cellId)).sizeBytes).toBeGreaterThan(0)
    })

    test('a lost cell that has no backup answers no_backup, and never starts empty (invariant 14)', async () => {
      const first = await make({ hasObjects: true })
      const cellId = first.store.createCell().id
      await first.close()
      fs.rmSync(new StorePaths(path.join(first.folder, 'data')).cell(cellId).directory, { recursive: true })
      const second = await make({ hasObjects: true, folder: first.folder })
      onTestFinished(() => second.close())
      for (const operation of [
        { op: 'kv.get', key: 'k' },
        { op: 'kv.put', key: 'k', value: 'v' },
      ] as const)
        await expect(second.service.execute(cellId, operation)).rejects.toMatchObject({ code: 'no_backup' })
    })

    test('a backup that nobody waits for is given up, and the next one works', async () => {
      const { service } = subject
      const gone = AbortSignal.abort(new Error('gone'))
      await expect(service.backups.snapshot(id, { signal: gone })).rejects.toThrow()
      await service.backups.snapshot(id)
      expect(await versionsOf()).toHaveLength(1)
    })

    test('a cell that changed is backed up on schedule', async () => {
      const scheduled = await make({ hasObjects: true, incrementalEveryMs: 50 })
      onTestFinished(() => scheduled.close())
      const cellId = scheduled.store.createCell().id
      const count = async () => (await scheduled.service.backups.list(cellId, {})).backups.length
      await scheduled.service.execute(cellId, { op: 'kv.put', key: 'k', value: 'v' })
      // The first of the cell, as it was made, and what has changed since.
      await expect.poll(count).toBe(2)
      await scheduled.service.execute(cellId, { op: 'kv.put', key: 'k', value: 'w' })
      await expect.poll(count).toBe(3)
    })

    test('without an object store, backups say so, and everything else works', async () => {
      const bare = await make({ hasObjects: false })
      onTestFinished(() => bare.close())
      const cellId = bare.store.createCell().id
      await bare.service.execute(cellId, { op: 'kv.put', key: 'k', value: 'v' })
      const refusal = expect.objectContaining({ code: 'object_store_not_configured' })
      expect(() => bare.service.backups).toThrow(refusal)
      expect(await bare.service.execute(cellId, { op: 'kv.get', key: 'k' })).toMatchObject({ value: 'v' })
      await bare.service.deleteCell(cellId)
    })
  })
}
