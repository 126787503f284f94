import fs from 'node:fs'
import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { builtLibrary } from '../../built.ts'
import { ENTRIES, GET, PUT } from '../library/library-peer.ts'
import { turnOf } from '../library/works.ts'
import { packageVersion } from '../packages.ts'
import { commit } from '../results.ts'

/**
 * A program with many databases, too many to keep them open: cells of a store, or files that better-sqlite3 opens, uses and closes.
 * Its arguments are which of these, and a directory.
 */
const [, , kind = '', directory = ''] = process.argv
const VALUE = 'v'.repeat(100)

interface Fleet {
  /** With an entry that is on disk. */
  make(i: number): void
  get(i: number): unknown
  put(i: number): void
  /** Nothing is open or in memory afterwards. */
  reopen(): Promise<void>
}

async function cells(): Promise<Fleet> {
  const { CellStore } = await builtLibrary()
  const data = path.join(directory, 'data')
  let store = await CellStore.create(data)
  const ids: string[] = []
  return {
    make: (i) => {
      const cell = store.createCell()
      ids[i] = cell.id
      cell.kv.put('key', VALUE)
    },
    get: (i) => store.openCell(ids[i] as string).kv.get('key'),
    put: (i) => store.openCell(ids[i] as string).kv.put('key', `${VALUE}${i}`),
    reopen: async () => {
      await store.close()
      store = await CellStore.open(data)
    },
  }
}

function files(): Fleet {
  const used = <T>(i: number, use: (database: Database.Database) => T) => {
    const database = new Database(path.join(directory, `${i}.db`))
    database.pragma('journal_mode = WAL')
    database.pragma('synchronous = FULL')
    try {
      return use(database)
    } finally {
      database.close()
    }
  }
  return {
    make: (i) => {
      used(i, (database) => database.exec(ENTRIES).prepare(PUT).run('key', VALUE))
      const folder = fs.openSync(directory, 'r')
      fs.fsyncSync(folder)
      fs.closeSync(folder)
    },
    get: (i) => used(i, (database) => database.prepare(GET).pluck().get('key')),
    put: (i) => used(i, (database) => database.prepare(PUT).run('key', `${VALUE}${i}`)),
    reopen: async () => {},
  }
}

/** What is asked of it: one thing of databases one after the other. */
interface Ask {
  work: 'make' | 'get' | 'put'
  from: number
  to: number
}

fs.mkdirSync(directory, { recursive: true })
const fleet = kind === 'cellstore' ? await cells() : files()

process.on('message', async ({ work, from, to }: Ask) => {
  try {
    if (from === 0 && work !== 'make') await fleet.reopen()
    const times: number[] = []
    const started = performance.now()
    for (let i = from; i < to; i++) {
      const before = performance.now()
      const given = fleet[work](i)
      times.push(performance.now() - before)
      if (work === 'get' && String(given).length < VALUE.length)
        throw new Error('it does not give what was put')
      // A program that serves others comes back to its event loop.
      await turnOfTheLoop()
    }
    process.send?.({ turn: turnOf(times.length, performance.now() - started, times) })
  } catch (error) {
    process.send?.({ failed: (error as Error).message })
  }
})
process.once('disconnect', () => process.exit())
process.send?.({
  version:
    kind === 'cellstore'
      ? `cellstore ${commit()}`
      : `${packageVersion('better-sqlite3')}, WAL, synchronous=FULL`,
})
