/**
 * What a tenant does to its neighbours. For each attack, alone and then with all the others at once, a node is started. One
 * account attacks it; another one's user reads and writes a cell of its own, a request every few milliseconds. Each row
 * begins with a quiet time, and the median of these is what the attacks are compared with. The attack of another node, on the
 * same machine, shows what the machine costs the neighbour: no node can do better than to share nothing.
 */

import { ATTACKS } from './neighbours/attacks.ts'
import { honestLoad } from './neighbours/honest-load.ts'
import type { Measured } from './neighbours/neighbour.ts'
import { NodeUnderAttack, type Round } from './neighbours/node-under-attack.ts'
import { median } from './side-by-side.ts'

const ROUND_MS = Number(process.env['CELLSTORE_BENCH_SECONDS'] ?? 20) * 1_000
const QUIET_MS = Math.min(ROUND_MS / 2, 5_000)
/** Only the rows whose names have it. */
const ONLY = process.env['CELLSTORE_BENCH_ATTACK'] ?? ''
/** 1: each attack is also measured against another node on this machine. */
const ELSEWHERE = process.env['CELLSTORE_BENCH_ELSEWHERE'] === '1'
const MAX_MS_MAX = 500
/** 600 MB. */
const NODE_MIB_MAX = 572
/** A new attacker may cost its neighbours so many workers in ten minutes. */
const OF_NEIGHBOUR_MAX = 1

interface Row extends Round {
  name: string
  quiet: Measured
  elsewhere: Measured | undefined
}

const all = Object.keys(ATTACKS)
const controls = Object.keys(honestLoad)
const table: [name: string, attacks: string[]][] = [...controls, ...all].map((name) => [name, [name]])
table.push(['all at once', all])
const rows: Row[] = []
for (const [name, attacks] of table) if (name.includes(ONLY)) rows.push(await measure(name, attacks))

const quietP99 = median(rows.map(({ quiet }) => quiet.p99))
const quietP50 = median(rows.map(({ quiet }) => quiet.p50))
console.log(
  `\n${ROUND_MS / 1_000} s a row. A quiet neighbour: p50 ${quietP50.toFixed(2)} ms, p99 ${quietP99.toFixed(2)} ms. Aims beside an attack: ` +
    `maximum ≤ ${MAX_MS_MAX} ms, no failure, node ≤ ${NODE_MIB_MAX} MiB, at most ${OF_NEIGHBOUR_MAX} of its workers killed.\n`,
)
console.log(
  '| attack | p50 ms | p99 ms | × quiet | other node attacked: p99 (max) | max ms | failures | node MiB | worker MiB | kills | of its worker | |',
)
console.log('|---|---|---|---|---|---|---|---|---|---|---|---|')
for (const row of rows) console.log(lineOf(row))
console.log('\nWhat the attacker was answered:')
for (const { name, answers, kills } of rows)
  console.log(
    `- ${name}: ${answers.map(([answer, count]) => `${count} × ${answer}`).join(', ')}${reasons(kills)}`,
  )

async function measure(name: string, attacks: readonly string[]): Promise<Row> {
  console.error(name)
  const node = await NodeUnderAttack.start()
  try {
    const quiet = await node.neighbour.measure(QUIET_MS)
    const elsewhere = ELSEWHERE ? await attackElsewhere(node, attacks) : undefined
    const row = { name, quiet, elsewhere, ...(await node.attack(attacks, ROUND_MS)) }
    console.error(lineOf(row, quiet.p99), row.answers, reasons(row.kills))
    return row
  } finally {
    const { code, ms } = await node.stop()
    if (code !== 0 || ms > 15_000) console.error(`The node ended with ${code}, after ${Math.round(ms)} ms.`)
  }
}

/** What the neighbour sees of an attack on another node. */
async function attackElsewhere(node: NodeUnderAttack, attacks: readonly string[]): Promise<Measured> {
  const other = await NodeUnderAttack.start()
  try {
    const { neighbour } = await node.attack(attacks, ROUND_MS, 1, other)
    return neighbour
  } finally {
    await other.stop()
  }
}

function lineOf({ name, neighbour, elsewhere, seen, kills }: Row, quiet = quietP99): string {
  const { p50, p99, max } = neighbour
  const failures = [...neighbour.failures].map(([answer, count]) => `${count} × ${answer}`).join(', ')
  const ofNeighbour = kills.filter(({ isOfNeighbour }) => isOfNeighbour).length
  const missed = [
    max > MAX_MS_MAX && 'maximum',
    failures !== '' && 'failures',
    seen.nodeMib > NODE_MIB_MAX && 'memory',
    ofNeighbour > OF_NEIGHBOUR_MAX && 'kills',
  ].filter(Boolean)
  const cells = [
    name,
    p50.toFixed(1),
    p99.toFixed(1),
    (p99 / quiet).toFixed(1),
    elsewhere === undefined ? '–' : `${elsewhere.p99.toFixed(1)} (${elsewhere.max.toFixed(0)})`,
    max.toFixed(0),
    failures || '0',
    seen.nodeMib.toFixed(0),
    seen.workerMib.toFixed(0),
    kills.length,
    ofNeighbour,
    missed.length === 0 ? 'met' : `MISSED: ${missed.join(', ')}`,
  ]
  return `| ${cells.join(' | ')} |`
}

/** Why workers ended. */
function reasons(kills: Round['kills']): string {
  const counts = [...Map.groupBy(kills, ({ reason }) => reason)].map(([why, all]) => `${all.length} × ${why}`)
  return counts.length === 0 ? '' : `; workers ended: ${counts.join(', ')}`
}
