import path from 'node:path'
import { openKv } from '@deno/kv'
import { packageVersion } from '../packages.ts'
import type { LibraryPeer } from './library-peer.ts'

/** Its SQLite file is in WAL mode, with SQLite's default, synchronous=FULL. */
export const peer: LibraryPeer = {
  version: () => `${packageVersion('@deno/kv')}, a local file`,
  async open(directory) {
    const kv = await openKv(path.join(directory, 'store.db'))
    return {
      get: async (key) => (await kv.get([key])).value,
      put: (key, value) => kv.set([key], value),
      incr: (key) => kv.atomic().sum([key], 1n).commit(),
      close: () => kv.close(),
    }
  },
}
