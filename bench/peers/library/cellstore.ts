import path from 'node:path'
import { builtLibrary } from '../../built.ts'
import { commit } from '../results.ts'
import { INSERT, type LibraryPeer, rows, SELECT, TABLE } from './library-peer.ts'

/** With nothing set: `durability: 'full'` is the default. */
export const peer: LibraryPeer = {
  version: () => `cellstore ${commit()}`,
  async open(directory) {
    const { CellStore } = await builtLibrary()
    const store = await CellStore.create(path.join(directory, 'data'))
    const cell = store.createCell()
    const { kv } = cell
    cell.exec(TABLE)
    const insert = cell.prepare(INSERT)
    cell.transaction(() => {
      for (const row of rows()) insert.run(row)
    })
    const select = cell.prepare(SELECT)
    return {
      get: (key) => kv.get(key),
      put: (key, value) => kv.put(key, value),
      putShared: (key, value) => cell.commit(() => kv.put(key, value)),
      incr: (key) => cell.commit(() => kv.incr(key)),
      selectPrepared: (id) => select.get(id),
      selectText: (id) => cell.get(SELECT, [id]),
      selectAll: (id) => cell.sql(SELECT, [id]),
      close: () => store.close(),
    }
  },
}
