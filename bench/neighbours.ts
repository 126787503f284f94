/**
 * What a tenant does to its neighbours. For each attack, alone and then with all the others at once, a node is started. One
 * account attacks it; another one's user reads and writes a cell of its own, a request every few milliseconds. Each row
 * begins with a quiet time, and the median of these is what the attacks are compared with. The attack of another node, on the
 * same machine, shows what the machine costs the neighbour: no node can do better than to share nothing.
 *
 * With `--proxy`, nginx is in front of each node as `deploy/nginx.conf` has it, and the attacks on connections are among the rows.
 */

import { accountAttacks } from './neighbours/attacks.ts'
import { connectionAttacks } from './neighbours/connection-attacks.ts'
import { crowds } from './neighbours/crowds.ts'
import { honestLoad } from './neighbours/honest-load.ts'
import type { Measured } from './neighbours/neighbour.ts'
import { NodeUnderAttack, type Round } from './neighbours/node-under-attack.ts'
import { median } from './side-by-side.ts'

const ROUND_MS = Number(process.env['CELLSTORE_BENCH_SECONDS'] ?? 20) * 1_000
const QUIET_MS = Math.min(ROUND_MS / 2, 5_000)
/** Only the rows whose names have it. */
const ONLY = process.env['CELLSTORE_BENCH_ATTACK'] ?? ''
/** 0: no attack is measured against another node on this machine, too. */
const ELSEWHERE = process.env['CELLSTORE_BENCH_ELSEWHERE'] !== '0'
const PROXIED = process.argv.includes('--proxy')
const MAX_MS_MAX = 500
const NODE_MB_MAX = 600
/** Of the neighbour's workers, for an attacker that the node does not know. */
const ENDED_MAX = 1

interface Row extends Round {
  name: string
  quiet: Measured
  elsewhere: Measured | undefined
  /** Changes of the neighbour that were made more than once. */
  twice: number
}

const all = Object.keys({ ...accountAttacks, ...(PROXIED ? connectionAttacks : {}) })
const controls = Object.keys({ ...honestLoad, ...crowds })
const table: [name: string, attacks: string[]][] = [...controls, ...all].map((name) => [name, [name]])
table.push(['all at once', all])
const rows: Row[] = []
for (const [name, attacks] of table) if (name.includes(ONLY)) rows.push(await measure(name, attacks))

const quietP99 = median(rows.map(({ quiet }) => quiet.p99))
const quietP50 = median(rows.map(({ quiet }) => quiet.p50))
console.log(
  `\n${ROUND_MS / 1_000} s a row, ${PROXIED ? 'through nginx' : 'without a proxy'}. A quiet neighbour: p50 ${quietP50.toFixed(2)} ms, p99 ${quietP99.toFixed(2)} ms. ` +
    `Aims beside an attack: no failure, no wait over ${MAX_MS_MAX} ms, node ≤ ${NODE_MB_MAX} MB, nothing twice, at most ${ENDED_MAX} worker ended.\n`,
)
console.log(
  '| attack | failures | longest wait, ms | node MB | workers ended | twice | | p99 ms | × quiet | p99 (longest) beside the same on another node |',
)
console.log('|---|---|---|---|---|---|---|---|---|---|')
for (const row of rows) console.log(lineOf(row))
console.log('\nWhat the attacker was answered:')
for (const { name, answers, kills } of rows)
  console.log(
    `- ${name}: ${answers.map(([answer, count]) => `${count} × ${answer}`).join(', ')}${reasons(kills)}`,
  )

async function measure(name: string, attacks: readonly string[]): Promise<Row> {
  console.error(name)
  const node = await NodeUnderAttack.start({ proxied: PROXIED })
  try {
    const quiet = await node.neighbour.measure(QUIET_MS)
    const elsewhere = ELSEWHERE ? await attackElsewhere(node, attacks) : undefined
    const round = await node.attack(attacks, ROUND_MS)
    const row = { name, quiet, elsewhere, twice: await node.neighbour.twice(), ...round }
    console.error(lineOf(row, quiet.p99), row.answers, reasons(row.kills))
    return row
  } finally {
    const { code, ms } = await node.stop()
    if (code !== 0 || ms > 15_000) console.error(`The node ended with ${code}, after ${Math.round(ms)} ms.`)
  }
}

/** What the neighbour sees of an attack on another node. */
async function attackElsewhere(node: NodeUnderAttack, attacks: readonly string[]): Promise<Measured> {
  const other = await NodeUnderAttack.start({ proxied: PROXIED })
  try {
    const { neighbour } = await node.attack(attacks, ROUND_MS, 1, other)
    return neighbour
  } finally {
    await other.stop()
  }
}

function lineOf({ name, neighbour, elsewhere, seen, kills, twice }: Row, quiet = quietP99): string {
  const { p99, max } = neighbour
  const failures = [...neighbour.failures].map(([answer, count]) => `${count} × ${answer}`).join(', ')
  const missed = [
    failures !== '' && 'failures',
    max > MAX_MS_MAX && 'longest wait',
    seen.nodeMb > NODE_MB_MAX && 'memory',
    kills.filter(({ isOfNeighbour }) => isOfNeighbour).length > ENDED_MAX && 'workers ended',
    twice > 0 && 'twice',
  ].filter(Boolean)
  const cells = [
    name,
    failures || '0',
    max.toFixed(0),
    seen.nodeMb.toFixed(0),
    kills.length,
    twice,
    missed.length === 0 ? 'met' : `MISSED: ${missed.join(', ')}`,
    p99.toFixed(1),
    (p99 / quiet).toFixed(1),
    elsewhere === undefined ? '–' : `${elsewhere.p99.toFixed(1)} (${elsewhere.max.toFixed(0)})`,
  ]
  return `| ${cells.join(' | ')} |`
}

/** Why workers ended. */
function reasons(kills: Round['kills']): string {
  const counts = [...Map.groupBy(kills, ({ reason }) => reason)].map(([why, all]) => `${all.length} × ${why}`)
  return counts.length === 0 ? '' : `; workers ended: ${counts.join(', ')}`
}
