import path from 'node:path'
import Database from 'better-sqlite3'
import { packageVersion } from '../packages.ts'
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

/** The same build of the same version that cellstore uses. */
export const peer: LibraryPeer = {
  version: () => `${packageVersion('better-sqlite3')}, WAL, synchronous=FULL`,
  open(directory) {
    const database = new Database(path.join(directory, 'store.db'))
    database.pragma('journal_mode = WAL')
    database.pragma('synchronous = FULL')
    database.exec(`${ENTRIES}; ${TABLE}`)
    const insert = database.prepare(INSERT)
    database.transaction(() => {
      for (const row of rows()) insert.run(row)
    })()
    const get = database.prepare(GET).pluck()
    const put = database.prepare(PUT)
    const incr = database.prepare(INCR)
    const select = database.prepare(SELECT)
    const transaction = database.transaction((run: () => void) => run())
    const share = groupCommits(transaction)
    return {
      get: (key) => get.get(key),
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
