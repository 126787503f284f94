import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { RunningNode } from '../../src/cli/serve/running-node.ts'
import type { ServeFlags } from '../../src/cli/serve/serve-flags.ts'
import { StoreCore } from '../../src/store/store-core.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test('a node whose server can not be made leaves its store to the next one', async () => {
  const root = tempDirectory()
  const dataDir = path.join(root, 'data')
  const flags = {
    dataDir,
    objectStore: pathToFileURL(path.join(root, 'objects')).href,
    workers: 0,
    drain: 1_000,
    objectStoreWait: 1_000,
    durability: 'full',
    host: '127.0.0.1',
    port: 99_999,
  } as unknown as ServeFlags
  const parts = { clock: systemClock, log: silentLog, rootKey: undefined, print: () => {} }
  await expect(RunningNode.start(flags, parts)).rejects.toThrow('port')
  const next = await StoreCore.openOrCreate(dataDir, { log: silentLog })
  await next.close()
})
