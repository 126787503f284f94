import path from 'node:path'
import KeyvSqlite from '@keyv/sqlite'
import Keyv from 'keyv'
import { packageVersion } from '../packages.ts'
import type { LibraryPeer } from './library-peer.ts'

/** It has no setting of its own for durability: SQLite's defaults, a rollback journal and synchronous=FULL. It has no increment. */
export const peer: LibraryPeer = {
  version: () => `${packageVersion('keyv')}, ${packageVersion('@keyv/sqlite')}`,
  open(directory) {
    const keyv = new Keyv(new KeyvSqlite(`sqlite://${path.join(directory, 'store.db')}`))
    return {
      get: (key) => keyv.get(key),
      put: (key, value) => keyv.set(key, value),
      close: () => keyv.disconnect(),
    }
  },
}
