import { expect, test, vi } from 'vitest'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { readOwner } from '../../../src/catalog/directory-lock.ts'
import { NodeCells } from '../../../src/workers/node/archiver/node-cells.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

test('a restore in place whose archiver is killed right after the switch names the time that brings back what it replaced', async () => {
  const { service, store, directory } = await openWorkerStore()
  const { id } = store.createCell()
  const put = (value: string) => service.execute(id, { op: 'kv.put', key: 'k', value })
  await put('of the version')
  const { version } = await service.backups.snapshot(id)
  await put('replaced')

  const { install } = NodeCells.prototype
  const installs = vi.spyOn(NodeCells.prototype, 'install').mockImplementationOnce(async function (
    this: NodeCells,
    ...args
  ) {
    await install.apply(this, args)
    process.kill(readOwner(new StorePaths(directory))?.archiver?.pid as number, 'SIGKILL')
  })
  const { replacedAt } = await service.backups.restore(id, { version })
  expect(installs).toHaveBeenCalledTimes(1)
  installs.mockRestore()

  const value = async () => (await service.execute(id, { op: 'kv.get', key: 'k' }))?.value
  expect(await value()).toBe('of the version')
  await service.backups.restore(id, { timestamp: replacedAt as number })
  expect(await value()).toBe('replaced')
})
