import os from 'node:os'
import { expect, test } from 'vitest'
import { StorePaths } from '../../../src/base/store-paths.ts'
import { readOwner } from '../../../src/catalog/directory-lock.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

test('the archiver has the processor that the processes leave for which users wait', async () => {
  const node = await openWorkerStore()
  const archiver = readOwner(new StorePaths(node.directory))?.archiver?.pid as number
  const { PRIORITY_BELOW_NORMAL } = os.constants.priority
  expect(os.getPriority(archiver)).toBe(Math.max(PRIORITY_BELOW_NORMAL, os.getPriority()))
  await node.service.backup(node.store.createCell().id, 'snapshot')
})
