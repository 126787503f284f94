import path from 'node:path'
import type { SqlParams } from '../../../src/index.ts'
import { builtLibrary } from '../../built.ts'
import { commit } from '../results.ts'
import { type BackupPeer, NEWEST_TICK } from './backup-peer.ts'

/** A restore proves what it installs, and replaces the cell. */
export const peer: BackupPeer = {
  version: () => `cellstore ${commit()}`,
  async open(directory) {
    const { CellStore } = await builtLibrary()
    const store = await CellStore.create(path.join(directory, 'data'), {
      objectStore: `file://${path.join(directory, 'objects')}`,
      limits: { cellBytesMax: 10_000_000_000 },
    })
    const cell = store.createCell()
    let version = ''
    return {
      write: (statements) =>
        cell.transaction(() => {
          for (const { sql, params = [] } of statements) cell.sql(sql, params as SqlParams)
        }),
      snapshot: async () => {
        version = (await store.backups.snapshot(cell.id)).version
      },
      restore: async () => await store.backups.restore(cell.id, { version }),
      // The newest version is where it begins. After a restore a base is made at once.
      beginHistory: async () => await store.backups.snapshot(cell.id),
      endHistory: async () => await store.backups.flush(),
      restoreTo: async (timestamp) => {
        await store.backups.restore(cell.id, { timestamp })
        return (cell.get(NEWEST_TICK) as { at: number }).at
      },
      close: () => store.close(),
    }
  },
}
