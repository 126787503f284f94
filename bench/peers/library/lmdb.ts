import path from 'node:path'
import { open } from 'lmdb'
import { packageVersion } from '../packages.ts'
import type { LibraryPeer } from './library-peer.ts'

/** A put is visible before it is on disk: `flushed` is the promise of that. */
export const peer: LibraryPeer = {
  version: () => `${packageVersion('lmdb')}, db.flushed awaited`,
  open(directory) {
    const database = open({ path: path.join(directory, 'store'), encoding: 'string' })
    return {
      get: (key) => database.get(key),
      put: async (key, value) => {
        await database.put(key, value)
        await database.flushed
      },
      incr: async (key) => {
        await database.transaction(() => database.put(key, String(Number(database.get(key) ?? 0) + 1)))
        await database.flushed
      },
      close: () => database.close(),
    }
  },
}
