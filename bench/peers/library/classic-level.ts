import path from 'node:path'
import { ClassicLevel } from 'classic-level'
import { packageVersion } from '../packages.ts'
import type { LibraryPeer } from './library-peer.ts'

/** It has a synchronous get since its third version, and no change that reads. */
export const peer: LibraryPeer = {
  version: () => `${packageVersion('classic-level')}, sync: true`,
  async open(directory) {
    const database = new ClassicLevel(path.join(directory, 'store'))
    await database.open()
    return {
      get: (key) => database.getSync(key),
      put: (key, value) => database.put(key, value, { sync: true }),
      close: () => database.close(),
    }
  },
}
