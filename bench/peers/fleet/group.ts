import path from 'node:path'
import { memoryMb } from '../../http-process.ts'
import { ask } from '../http/http-peer.ts'
import { type ServerContender, startServers } from '../http/servers.ts'
import { turnOf } from '../library/works.ts'
import { openFiles } from '../processes.ts'
import type { Outcome, Row, Unit } from '../results.ts'
import { StoreProcess } from '../store-process.ts'
import { type Contender, type Rounds, type Turn, takeTurns } from '../turns.ts'

interface FleetSettings {
  rounds: number
  turnMs: number
  fleets: number[]
}

/** Many databases: of servers, and in one process. */
export async function compareFleets(directory: string, settings: FleetSettings): Promise<Row[]> {
  const rows: Row[] = []
  for (const size of settings.fleets) {
    rows.push(...(await servers(path.join(directory, `served-${size}`), size, settings)))
    rows.push(...(await inProcess(path.join(directory, `in-process-${size}`), size, settings)))
  }
  return rows
}

/** A round makes its part of them. */
const part = (size: number, rounds: number, round: number) => [
  Math.floor((size * round) / rounds),
  Math.floor((size * (round + 1)) / rounds),
]

/** Counts the turns of each contender. */
function roundsOf(): (contender: Contender) => number {
  const rounds = new Map<Contender, number>()
  return (contender) => {
    const round = rounds.get(contender) ?? 0
    rounds.set(contender, round + 1)
    return round
  }
}

async function servers(directory: string, size: number, { rounds, turnMs }: FleetSettings): Promise<Row[]> {
  const { contenders, absent } = await startServers(directory, true)
  const databases = new Map(contenders.map((each) => [each, [] as string[]]))
  const of = (each: ServerContender) => databases.get(each) as string[]
  const rows: Row[] = []
  // Who fails at a row is not measured on: what it needs then would be of less work than that of the others.
  let able: readonly ServerContender[] = contenders
  const add = async (what: string, unit: Unit, taken: Rounds<ServerContender>) => {
    const measured = await takeTurns(able, taken)
    rows.push({
      group: 'fleet',
      what,
      unit,
      at: size,
      of: 'databases',
      contenders: { ...measured, ...absent },
    })
    const failed = able.filter(({ name }) => 'absent' in (measured[name] as Outcome))
    for (const each of failed) {
      absent[each.name] = { absent: `it failed in a row before: ${what}` }
      await each.stop()
    }
    able = able.filter((each) => !failed.includes(each))
  }
  try {
    const roundOf = roundsOf()
    const make = async (each: ServerContender): Promise<Turn> => {
      const [from = 0, to = 0] = part(size, rounds, roundOf(each))
      return await oneByOne(to - from, async () => {
        const database = await each.server.createDatabase()
        of(each).push(database)
        await ask(each.server, each.server.put(database, 'key'))
      })
    }
    await add('created over HTTP, with a first durable PUT', '/s', { rounds, turn: make })

    const puts = (each: ServerContender) => of(each).map((database) => each.server.put(database, 'key'))
    const gets = (each: ServerContender) => of(each).map((database) => each.server.get(database, 'key'))
    for (const [what, asked] of Object.entries({ 'PUT in turn': puts, 'GET in turn': gets })) {
      const turn = (each: ServerContender) => each.load(asked(each), { turnMs })
      await add(what, '/s', { rounds, warmUp: turn, turn })
    }
    const look = (figure: (pid: number) => number) => ({
      rounds: 1,
      turn: async ({ pid }: ServerContender) => ({ value: figure(pid) }),
    })
    await add('memory after these', 'MB', look(memoryMb))
    await add('open files after these', 'open files', look(openFiles))

    const cold = async (each: ServerContender): Promise<Turn> => {
      const all = of(each)
      let i = 0
      return await oneByOne(all.length, () => ask(each.server, each.server.get(all[i++] as string, 'key')))
    }
    await add('first GET of each after a restart', '/s', {
      rounds: 1,
      warmUp: (each) => each.restart(),
      turn: cold,
    })
    return rows
  } finally {
    for (const each of contenders) await each.stop()
  }
}

async function oneByOne(count: number, run: () => Promise<unknown>): Promise<Turn> {
  const times: number[] = []
  const started = performance.now()
  for (let i = 0; i < count; i++) {
    const before = performance.now()
    await run()
    times.push(performance.now() - before)
  }
  return turnOf(count, performance.now() - started, times)
}

const IN_PROCESS = {
  make: 'made in process, with a first durable put',
  get: 'cold get in process',
  put: 'cold durable put in process',
}

async function inProcess(directory: string, size: number, { rounds }: FleetSettings): Promise<Row[]> {
  const program = path.join(import.meta.dirname, 'cells-process.ts')
  const contenders: StoreProcess[] = []
  const absent: Record<string, Outcome> = {}
  try {
    for (const name of ['cellstore', 'better-sqlite3']) {
      const contender = new StoreProcess(name, program, [name, path.join(directory, name)])
      const reason = await contender.ready()
      if (reason === undefined) contenders.push(contender)
      else absent[name] = { absent: reason }
    }
    const rows: Row[] = []
    for (const [work, what] of Object.entries(IN_PROCESS)) {
      const roundOf = roundsOf()
      const turn = async (each: StoreProcess) => {
        const [from, to] = part(size, rounds, roundOf(each))
        return (await each.turn({ work, from, to })) as Turn
      }
      const measured = await takeTurns(contenders, { rounds, turn })
      rows.push({
        group: 'fleet',
        what,
        unit: '/s',
        at: size,
        of: 'databases',
        contenders: { ...measured, ...absent },
      })
    }
    return rows
  } finally {
    for (const each of contenders) await each.stop()
  }
}
