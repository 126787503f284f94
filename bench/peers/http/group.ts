import { SELECT, TABLE } from '../library/library-peer.ts'
import type { Outcome, Row } from '../results.ts'
import { takeTurns } from '../turns.ts'
import { type Asked, ask, type HttpServer, VALUE } from './http-peer.ts'
import { assertKeeps, KEYS, type ServerContender, startServers } from './servers.ts'

const FILL = `INSERT INTO users WITH RECURSIVE ids(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM ids WHERE id < 999)
  SELECT id, 'name ' || id, id % 90, 'city ' || (id % 10) FROM ids`

const INSERT = 'INSERT INTO notes (note) VALUES (?)'

const WORKS: Record<string, (server: HttpServer, database: string) => Asked> = {
  GET: ({ get }, database) => get(database, 'key:$k'),
  'PUT, durable': ({ put }, database) => put(database, 'key:$k'),
  'SELECT by key': ({ sql }, database) => sql(database, SELECT, ['$k']),
  'INSERT, durable': ({ sql }, database) => sql(database, INSERT, [VALUE]),
}

/** One database of each server, first as fast as each answers, then at half of that rate. */
export async function compareServers(
  directory: string,
  { rounds, turnMs }: { rounds: number; turnMs: number },
): Promise<Row[]> {
  const { contenders, absent } = await startServers(directory, false)
  const databases = new Map<ServerContender, string>()
  const ready: ServerContender[] = []
  try {
    for (const each of contenders) {
      try {
        databases.set(each, await filledDatabase(each.server))
        ready.push(each)
      } catch (error) {
        absent[each.name] = { absent: `it failed: ${(error as Error).message}` }
      }
    }
    const asked = (each: ServerContender, work: string) => [
      (WORKS[work] as (typeof WORKS)[string])(each.server, databases.get(each) as string),
    ]
    const rows: Row[] = []
    const top: Record<string, Record<string, Outcome>> = {}
    for (const work of Object.keys(WORKS)) {
      const measured = await takeTurns(ready, {
        rounds,
        // In its first seconds V8 makes a server faster by half.
        warmUp: (each) => each.load(asked(each, work), { turnMs: 4 * turnMs }),
        turn: (each) => each.load(asked(each, work), { turnMs }),
      })
      top[work] = measured
      rows.push({ group: 'http', what: work, unit: '/s', contenders: { ...measured, ...absent } })
    }
    for (const work of Object.keys(WORKS)) {
      const perSecond = ({ name }: ServerContender) => {
        const outcome = top[work]?.[name]
        if (outcome === undefined || 'absent' in outcome) throw new Error('its top rate was not measured')
        return outcome.median / 2
      }
      const paced = async (each: ServerContender) => {
        const turn = await each.load(asked(each, work), {
          turnMs,
          perSecond: perSecond(each),
        })
        return { ...turn, value: turn.p99 ?? Number.NaN }
      }
      const measured = await takeTurns(ready, { rounds, warmUp: paced, turn: paced })
      rows.push({
        group: 'http',
        what: `${work}: p99 at half of the top rate`,
        unit: 'ms',
        contenders: { ...measured, ...absent },
      })
    }
    return rows
  } finally {
    for (const each of contenders) await each.stop()
  }
}

async function filledDatabase(server: HttpServer): Promise<string> {
  const database = await server.createDatabase()
  await assertKeeps(server, database)
  for (const sql of [TABLE, FILL, 'CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT)'])
    await ask(server, server.sql(database, sql, []))
  const row = await ask(server, server.sql(database, SELECT, ['$k']))
  if (!row.includes('name 7')) throw new Error(`it does not give the row: ${row.slice(0, 200)}`)
  // sqld and rqlite answer a statement that fails with 200.
  await ask(server, server.sql(database, INSERT, [VALUE]))
  const note = await ask(server, server.sql(database, 'SELECT note FROM notes', []))
  if (!note.includes('vvvv')) throw new Error(`it does not give what was inserted: ${note.slice(0, 200)}`)
  // Reads find entries.
  for (let k = 0; k < KEYS; k++) await ask(server, server.put(database, `key:${k}`))
  return database
}
