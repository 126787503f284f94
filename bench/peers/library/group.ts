import path from 'node:path'
import type { Outcome, Row } from '../results.ts'
import { StoreProcess } from '../store-process.ts'
import { type Turn, takeTurns } from '../turns.ts'
import { WORKS } from './works.ts'

export const LIBRARY_PEERS = {
  cellstore: 'cellstore.ts',
  'better-sqlite3': 'better-sqlite3.ts',
  'node:sqlite': 'node-sqlite.ts',
  lmdb: 'lmdb.ts',
  'classic-level': 'classic-level.ts',
  'Deno KV': 'deno-kv.ts',
  Keyv: 'keyv.ts',
  Redis: 'redis.ts',
}

/**
 * @param names of {@link LIBRARY_PEERS}
 * @param works of {@link WORKS}
 */
export async function compareLibraries(
  directory: string,
  { rounds, turnMs }: { rounds: number; turnMs: number },
  names = Object.keys(LIBRARY_PEERS) as (keyof typeof LIBRARY_PEERS)[],
  works = Object.keys(WORKS),
): Promise<Row[]> {
  const program = path.join(import.meta.dirname, 'peer-process.ts')
  const absent: Record<string, Outcome> = {}
  const contenders: StoreProcess[] = []
  try {
    for (const name of names) {
      const file = LIBRARY_PEERS[name]
      const contender = new StoreProcess(name, program, [
        path.join(import.meta.dirname, file),
        path.join(directory, file),
      ])
      const reason = await contender.ready()
      if (reason === undefined) contenders.push(contender)
      else {
        absent[name] = { absent: reason }
        await contender.stop()
      }
    }
    const rows: Row[] = []
    for (const work of works) {
      const able: StoreProcess[] = []
      const unable: Record<string, Outcome> = {}
      for (const each of contenders) {
        if (each.name in absent) continue
        if ((await each.turn({ work, ms: 1 })) !== undefined) able.push(each)
        else unable[each.name] = { absent: 'it has no such operation' }
      }
      const measured = await takeTurns(able, {
        rounds,
        warmUp: (each) => each.turn({ work, ms: turnMs }),
        turn: async (each) => (await each.turn({ work, ms: turnMs })) as Turn,
      })
      rows.push({
        group: 'library',
        what: work,
        unit: '/s',
        contenders: { ...measured, ...unable, ...absent },
      })
      // A process that failed may have ended, or still be at work and answer a later row with this one's figures.
      for (const { name } of able)
        if ('absent' in (measured[name] as Outcome))
          absent[name] = { absent: `it failed in a row before: ${work}` }
    }
    return rows
  } finally {
    for (const each of contenders) await each.stop()
  }
}
