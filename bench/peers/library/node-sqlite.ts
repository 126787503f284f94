import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import {
  ENTRIES,
  GET,
  groupCommits,
  INCR,
  INSERT,
  type LibraryPeer,
  PUT,
  rows,
  SELECT,
  TABLE,
} from './library-peer.ts'

export const peer: LibraryPeer = {
  version: () => `node:sqlite of Node.js ${process.version}, WAL, synchronous=FULL`,
  open(directory) {
    const database = new DatabaseSync(path.join(directory, 'store.db'))
    database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${ENTRIES}; ${TABLE}`)
    const transaction = (run: () => void) => {
      database.exec('BEGIN')
      run()
      database.exec('COMMIT')
    }
    const insert = database.prepare(INSERT)
    transaction(() => {
      for (const row of rows()) insert.run(...row)
    })
    const get = database.prepare(GET)
    const put = database.prepare(PUT)
    const incr = database.prepare(INCR)
    const select = database.prepare(SELECT)
    const share = groupCommits(transaction)
    return {
      get: (key) => get.get(key)?.['value'],
      put: (key, value) => put.run(key, value),
      putShared: (key, value) => share(() => put.run(key, value)),
      incr: (key) => share(() => incr.run(key)),
      selectPrepared: (id) => select.get(id),
      selectText: (id) => database.prepare(SELECT).get(id),
      selectAll: (id) => database.prepare(SELECT).all(id),
      close: () => database.close(),
    }
  },
}
