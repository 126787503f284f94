import { setTimeout as sleep } from 'node:timers/promises'
import { median, report } from '../side-by-side.ts'
import { BenchCluster, type BenchNode, kill } from './bench-cluster.ts'
import { askUntilAnswered, cellsOf, createCells, eachOf, must } from './cells.ts'

/** A move and a fail-over each have a cluster of their own. */
const ROUNDS = Number(process.env['CELLSTORE_BENCH_ROUNDS'] ?? 3)
const OPEN_CELLS = 100
const LOADED_CELLS = 20
const LOST_CELLS = Number(process.env['CELLSTORE_BENCH_LOST'] ?? 1_000)
const LOST_AT_ONCE = 64
const MEGABYTE = 1_000_000
const LOAD_PER_SECOND = 100
/** What goes on before a fault, and after the last answer. */
const QUIET_MS = 1_000
const SETTLE_MS = 3_000

interface Load {
  /** Milliseconds of each request, with its repetitions. */
  times: number[]
  refused: number
  stop(): Promise<void>
}

/** Asks for cells in turn at a steady rate, reads and durable writes, however long answers take. */
function steadyLoad(nodes: readonly BenchNode[], cells: readonly string[]): Load {
  const underway = new Set<Promise<void>>()
  let asked = 0
  const load: Load = {
    times: [],
    refused: 0,
    async stop() {
      clearInterval(timer)
      await Promise.all(underway)
    },
  }
  const one = async () => {
    const n = asked++
    const path = `${cells[n % cells.length]}/kv/key`
    const [method, body] =
      n % 2 === 0 ? (['GET', undefined] as const) : (['PUT', { value: String(n) }] as const)
    const order = nodes.map((_, i) => nodes[(n + i) % nodes.length] as BenchNode)
    const { ms, refused } = await askUntilAnswered(order, method, path, body)
    load.times.push(ms)
    load.refused += refused
  }
  const timer = setInterval(() => {
    const promise: Promise<void> = one().finally(() => underway.delete(promise))
    underway.add(promise)
  }, 1_000 / LOAD_PER_SECOND)
  return load
}

/** A node is emptied that has 100 cells in use; the others have as many, so that nothing moves before. */
export async function move(): Promise<void> {
  const rounds: { slowest: number; refused: number; count: number }[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const cluster = await BenchCluster.start()
    try {
      const [first] = cluster.nodes as [BenchNode]
      const cells = await Promise.all(cluster.nodes.map((node) => createCells(node, OPEN_CELLS)))
      const [moved = []] = cells
      const load = steadyLoad(cluster.nodes, moved)
      await sleep(QUIET_MS)
      const before = await cellsOf(first, moved)
      await cluster.drain(first)
      await sleep(QUIET_MS)
      await load.stop()
      const after = await cellsOf(first, moved)
      if (after.length > 0) throw new Error(`${after.length} cells did not move.`)
      rounds.push({ slowest: Math.max(...load.times), refused: load.refused, count: before.length })
    } finally {
      await cluster.stop()
    }
  }
  const slowest = rounds.map(({ slowest }) => slowest / 1_000)
  report({
    what: `drain of a node with ${median(rounds.map(({ count }) => count))} open cells, ${LOAD_PER_SECOND} requests/s for them: the slowest`,
    ours: `${median(slowest).toFixed(2)} s (${slowest.map((each) => each.toFixed(2)).join(', ')})`,
    theirs: `${rounds.map(({ refused }) => refused).join(', ')} × 503`,
    ratio: 1 / median(slowest),
    aim: '≤ 1 s, with repetitions',
    met: median(slowest) <= 1,
  })
}

/** Seconds from a signal to one of three nodes until each of its cells was answered elsewhere, ascending. */
async function lostCells(
  cluster: BenchCluster,
  cells: readonly string[],
  { signal, atOnce }: { signal: NodeJS.Signals; atOnce: number },
): Promise<number[]> {
  const [victim, ...others] = cluster.nodes as [BenchNode, ...BenchNode[]]
  const lost = await cellsOf(victim, cells)
  const begin = performance.now()
  kill(victim.pid, signal)
  const seconds: number[] = []
  await eachOf(lost, atOnce, async (cell, index) => {
    const order = index % 2 === 0 ? others : others.toReversed()
    await askUntilAnswered(order, 'GET', `${cell}/kv/key`)
    seconds.push((performance.now() - begin) / 1_000)
  })
  return seconds.sort((a, b) => a - b)
}

async function failOver(signal: NodeJS.Signals, what: string, secondsMax: number): Promise<void> {
  const first: number[] = []
  const last: number[] = []
  let count = 0
  for (let round = 0; round < ROUNDS; round++) {
    const cluster = await BenchCluster.start()
    try {
      const cells = (await Promise.all(cluster.nodes.map((node) => createCells(node, LOADED_CELLS)))).flat()
      const load = steadyLoad(cluster.nodes.slice(1), cells)
      // A lag: each cell is in the bucket.
      await sleep(10 * QUIET_MS)
      const seconds = await lostCells(cluster, cells, { signal, atOnce: cells.length })
      await sleep(SETTLE_MS)
      await load.stop()
      count = seconds.length
      first.push(seconds[0] as number)
      last.push(seconds.at(-1) as number)
    } finally {
      await cluster.stop()
    }
  }
  const all = (seconds: readonly number[]) => seconds.map((each) => each.toFixed(1)).join(', ')
  report({
    what: `${what}, ${LOAD_PER_SECOND} requests/s: first answer of the slowest of ${count} lost cells`,
    ours: `${median(last).toFixed(1)} s (${all(last)})`,
    theirs: `the fastest ${all(first)}`,
    ratio: secondsMax / median(last),
    aim: `≤ ${secondsMax} s`,
    met: median(last) <= secondsMax,
  })
}

export async function killed(): Promise<void> {
  await failOver('SIGKILL', 'one of three nodes killed', 8)
}

/** Its connections stay, and nobody answers: so does a machine that is lost. */
export async function stopped(): Promise<void> {
  await failOver('SIGSTOP', 'one of three nodes stopped (SIGSTOP)', 15)
}

/** A node is lost that has many cells in the bucket only. */
export async function lost(): Promise<void> {
  const cluster = await BenchCluster.start()
  try {
    const [victim, ...others] = cluster.nodes as [BenchNode, ...BenchNode[]]
    // The others have as many, so that nothing moves before.
    const [cells] = await Promise.all([
      createCells(victim, LOST_CELLS, MEGABYTE),
      ...others.map((node) => createCells(node, LOST_CELLS)),
    ])
    await eachOf(cells, 4, async (cell) => void (await must(victim, 'POST', `${cell}/backup`)))
    await sleep(SETTLE_MS)
    const seconds = await lostCells(cluster, cells, { signal: 'SIGKILL', atOnce: LOST_AT_ONCE })
    const all = seconds.at(-1) as number
    await wholeCells(others, cells)
    report({
      what: `${seconds.length} lost cells of 1 MB, ${LOST_AT_ONCE} requested at once: all answered`,
      ours: `${all.toFixed(1)} s`,
      theirs: `the first ${seconds[0]?.toFixed(1)} s`,
      ratio: 60 / all,
      aim: '≤ 60 s after the kill',
      met: all <= 60,
    })
  } finally {
    await cluster.stop()
  }
}

async function wholeCells(nodes: readonly BenchNode[], cells: readonly string[]): Promise<void> {
  await eachOf(cells, 4, async (cell) => {
    const sql = 'SELECT length(bytes) AS bytes FROM filling'
    const answer = await must<{ rows: unknown[] }>(nodes[0] as BenchNode, 'POST', `${cell}/sql`, {
      body: { sql },
    })
    if (!JSON.stringify(answer).includes(String(MEGABYTE)))
      throw new Error(`${cell} is not whole: ${JSON.stringify(answer)}`)
  })
}
