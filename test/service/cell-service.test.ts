import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll } from 'vitest'
import { InProcessService } from '../../src/service/in-process-service.ts'
import { BOUNDS } from '../support/request-bounds.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { WorkerStore } from '../support/worker-store.ts'
import { cellServiceContract } from './cell-service.contract.ts'
import { readOnlyContract } from './read-only.contract.ts'
import type { ServiceOptions, ServiceUnderTest } from './service-under-test.ts'

const home = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-service-'))
afterAll(() => fs.rmSync(home, { recursive: true, force: true }))

const newFolder = () => fs.mkdtempSync(path.join(home, 'store-'))

async function inProcess({ folder, ...options }: ServiceOptions): Promise<ServiceUnderTest> {
  const { hasObjects, incrementalEveryMs, sqlPolicy, holds } = options
  const place = folder ?? newFolder()
  const data = new StoreDirectory(path.join(place, 'data'))
  const objectStore = hasObjects ? pathToFileURL(path.join(place, 'objects')).href : undefined
  const store = await data.openOrCreate({ objectStore, backups: { incrementalEveryMs } })
  const service = new InProcessService(store, {
    restoreWaitMs: 20_000,
    bounds: { ...BOUNDS, holds },
    sqlPolicy,
  })
  return { service, store, folder: place, close: () => data.close() }
}

async function node({ folder, ...options }: ServiceOptions): Promise<ServiceUnderTest> {
  const { hasObjects, incrementalEveryMs, sqlPolicy, holds } = options
  const place = folder ?? newFolder()
  const subject = await WorkerStore.start({
    folder: place,
    hasObjects,
    store: { backups: { incrementalEveryMs } },
    service: { workers: 2, sqlPolicy, bounds: { ...BOUNDS, holds } },
  })
  const { service, store } = subject
  return { service, store, folder: place, close: () => subject.close() }
}

cellServiceContract('InProcessService', inProcess)
cellServiceContract('WorkerService', node)
readOnlyContract('InProcessService', inProcess)
readOnlyContract('WorkerService', node)
