import fs from 'node:fs'
import { expect, test } from 'vitest'
import { CellError } from '../../src/errors.ts'
import { openWorkerStore } from '../support/worker-store.ts'

test.each(['backup', 'restore'] as const)(
  'a %s that waits behind a backup of its cell does not start once its caller may no longer do it',
  async (what) => {
    const { store, service } = await openWorkerStore()
    const { id } = store.createCell()
    let isRevoked = false
    const revoke = () => {
      isRevoked = true
    }
    const permit = {
      check: () => {
        if (isRevoked) throw new CellError('unauthorized', 'The key was revoked.')
      },
    }
    const before = service.backups.snapshot(id, { onProgress: revoke })
    const waits =
      what === 'backup' ? service.backups.snapshot(id, { permit }) : service.backups.restore(id, { permit })
    await expect(waits).rejects.toMatchObject({ code: 'unauthorized' })
    await before
    expect((await service.backups.list(id, {})).backups).toHaveLength(1)
  },
)

test('an export that waits for its cell’s worker leaves nothing once its caller may no longer have it', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  let checks = 0
  const permit = {
    check: () => {
      if (++checks > 1) throw new CellError('unauthorized', 'The key was revoked.')
    },
  }
  await expect(service.exportCell(id, { permit })).rejects.toMatchObject({ code: 'unauthorized' })
  expect(checks).toBe(2)
  expect(fs.readdirSync(store.paths.spool)).toEqual([])
})
