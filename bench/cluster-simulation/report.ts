import type { calculated } from './calculated.ts'
import type { Done, Outage, Recovery } from './scenarios.ts'
import type { SimulationSettings } from './surroundings.ts'

type Calculated = ReturnType<typeof calculated>
const DIFFERENT = 0.1
const number = (value: number) => value.toLocaleString('en', { maximumFractionDigits: value < 100 ? 1 : 0 })
const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

export function printHead(): void {
  console.log('\n| | simulated | calculated | |\n|---|---|---|---|')
}

/** A row: marked if the two differ by more than a tenth. */
function row(what: string, simulated: number, expected: number | undefined, show = number): void {
  const isFar =
    expected !== undefined && Math.abs(simulated - expected) > DIFFERENT * Math.max(expected, 1e-9)
  const mark = isFar ? `DIFFERS: ${(simulated / expected).toFixed(2)}` : ''
  console.log(`| ${what} | ${show(simulated)} | ${expected === undefined ? '–' : show(expected)} | ${mark} |`)
}

/** What was done, in full: for what the rows leave out. */
function details({ statements, requests, calls }: Done): void {
  console.log(`| &nbsp; | PostgreSQL: ${statements}; bucket: ${requests}; calls: ${calls} | | |`)
}

export function printRest(done: Done & { monthly: number }, expected: Calculated, lagMs: number): void {
  const { statements, requests } = done
  const all =
    (statements.sum() - statements.of('rows of nodes') - statements.of('bytes of the catalog')) / done.seconds
  const ofHour = (count: number) => (count / done.seconds) * 3_600
  const lag = `at rest, lag ${lagMs / 1_000} s:`
  row(`${lag} beats a second`, statements.of('beat') / done.seconds, expected.beats)
  row(`${lag} statements a second in PostgreSQL`, all, expected.statements)
  row(`${lag} rows a second that it answers`, statements.of('rows of nodes') / done.seconds, expected.rows)
  row(`${lag} PUTs and LISTs an hour`, ofHour(requests.sum('PUT') + requests.sum('LIST')), expected.puts)
  row(`${lag} GETs and HEADs an hour`, ofHour(requests.sum('GET') + requests.sum('HEAD')), expected.gets)
  row(`${lag} dollars a month`, done.monthly, expected.monthly)
  details(done)
}

export function printRevocation(
  done: Done & { ms: number },
  { nodes, postgresMs, peerMs }: SimulationSettings,
): void {
  // A change takes four round trips; the nodes are listed, and each takes in the change: four more.
  row('a revocation, milliseconds', done.ms, 8 * postgresMs + peerMs)
  row('a revocation, calls of nodes', done.calls.sum(), nodes - 1)
  details(done)
}

export function printLoss(done: Recovery, expected: Calculated, count: number, perSecond: number): void {
  const lost = `${count} ${count === 1 ? 'node' : 'nodes'} lost:`
  row(`${lost} declared dead after`, done.declaredMs, expected.declaredMs, seconds)
  row(`${lost} fenced after`, done.fencedMs, expected.fencedMs, seconds)
  row(`${lost} ranges assigned after`, done.assignedMs, expected.assignedMs, seconds)
  row(`${lost} all nodes know it after`, done.knownMs, expected.knownMs, seconds)
  row(`${lost} cells`, done.lostCells, expected.lostCells)
  row(`${lost} takers`, done.takers, expected.takers)
  row(`${lost} cells of the taker with most`, done.cellsOfTaker, expected.cellsOfTaker)
  row(
    `${lost} all cells are back after, at ${perSecond} a second for each taker`,
    done.assignedMs + (done.cellsOfTaker / perSecond) * 1_000,
    expected.assignedMs + (expected.cellsOfTaker / perSecond) * 1_000,
    seconds,
  )
  row(`${lost} nodes that were taken for lost, and were not`, done.wronglyEnded, 0)
  row(
    `${lost} MB of the catalog that PostgreSQL sends`,
    done.statements.of('bytes of the catalog') / 1e6,
    undefined,
  )
  details(done)
}

export function printOutage(done: Outage, kind: 'silent' | 'refusing', lengthS: number, nodes: number): void {
  const what =
    kind === 'silent'
      ? `PostgreSQL not reached for ${lengthS} s:`
      : `PostgreSQL down for ${lengthS} s, and another server:`
  row(`${what} nodes without a lease at some moment`, done.withoutLease, 0)
  row(`${what} nodes that were taken for lost`, done.wronglyEnded, 0)
  row(`${what} all nodes have beaten after its return within`, done.beatenMs, undefined, seconds)
  row(`${what} changes of the catalog again after`, done.changesMs, undefined, seconds)
  row(`${what} calls of nodes after its return`, done.after.calls.sum(), 0)
  row(
    `${what} LISTs of the bucket after its return`,
    done.after.requests.sum('LIST'),
    kind === 'silent' ? 0 : nodes,
  )
  details(done)
  details(done.after)
}
