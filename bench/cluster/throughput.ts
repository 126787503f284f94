import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { Client, cpuMs, type Served, startBaseline, startCellstore } from '../http-process.ts'
import { median, report, sideBySide } from '../side-by-side.ts'
import { BenchCluster } from './bench-cluster.ts'
import { createCells } from './cells.ts'

const CONNECTIONS = 32
const KEYS = 1_000
const ROUNDS = Number(process.env['CELLSTORE_BENCH_ROUNDS'] ?? 5)
const ROUND_MS = Number(process.env['CELLSTORE_BENCH_ROUND_MS'] ?? 2_000)
/** V8 compiles what runs often, and again what runs more often. */
const WARM_UP_MS = 4 * ROUND_MS
const keys = Array.from({ length: KEYS }, (_, i) => `key:${i}`)

/** Someone who is asked for entries. */
interface Contender {
  server: Pick<Served, 'port' | 'key' | 'pid'>
  paths: string[]
}

/** What the rounds of one contender brought. */
interface Rounds {
  rates: number[]
  medians: number[]
  costs: number[]
}

const roundsOf = (): Rounds => ({ rates: [], medians: [], costs: [] })

/** Measures each in turn. @param perSecond by default as fast as it is answered */
async function measure<Name extends string>(
  client: Client,
  method: 'GET' | 'PUT',
  contenders: Record<Name, Contender>,
  perSecond?: number,
): Promise<Record<Name, { rate: number; median: number; cost: number }>> {
  const rounds = new Map<string, Rounds>()
  const load = ({ server: { port, key }, paths }: Contender, durationMs: number) =>
    client.run({
      ...{ port, method, paths, connections: CONNECTIONS, durationMs },
      headers: key === '' ? '' : `x-api-key: ${key}\r\n`,
      ...(perSecond !== undefined && { perSecond }),
    })
  const entries = Object.entries<Contender>(contenders)
  for (const [, each] of entries) await load(each, WARM_UP_MS)
  const turn = async (name: string, each: Contender) => {
    const before = cpuMs(each.server.pid)
    const { rate, count, median } = await load(each, ROUND_MS)
    const { rates, medians, costs } = rounds.get(name) ?? roundsOf()
    rounds.set(name, {
      rates: [...rates, rate],
      medians: [...medians, median],
      costs: [...costs, ((cpuMs(each.server.pid) - before) * 1_000) / count],
    })
    return rate
  }
  await sideBySide(ROUNDS, Object.fromEntries(entries.map(([name, each]) => [name, () => turn(name, each)])))
  return Object.fromEntries(
    [...rounds].map(([name, { rates, medians, costs }]) => [
      name,
      { rate: median(rates), median: median(medians), cost: median(costs) },
    ]),
  ) as Record<Name, { rate: number; median: number; cost: number }>
}

const shown = ({ rate, cost }: { rate: number; cost: number }) =>
  `${Math.round(rate).toLocaleString('en')}/s (${cost.toFixed(0)} µs)`

/** The owner of a cell, asked itself, next to a node that is alone. */
export async function owner(): Promise<void> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-alone-'))
  const client = new Client()
  const cluster = await BenchCluster.start()
  const bucket = pathToFileURL(path.join(directory, 'bucket')).href
  const alone = await startCellstore(directory, ['--object-store', bucket])
  try {
    const [ofCluster] = await createCells(cluster.node(0), 1)
    const [ofOne] = await createCells(alone, 1)
    const contenders = {
      theirs: { server: alone, paths: keys.map((key) => `${ofOne}/kv/${key}`) },
      ours: { server: cluster.node(0), paths: keys.map((key) => `${ofCluster}/kv/${key}`) },
    }
    // Reads find entries.
    for (const method of ['PUT', 'GET'] as const) {
      const { ours, theirs } = await measure(client, method, contenders)
      const ratio = ours.rate / theirs.rate
      report({
        what: `${method === 'PUT' ? 'durable PUT' : 'GET'} at the owner, in a cluster of three`,
        ours: shown(ours),
        theirs: shown(theirs),
        ratio,
        aim: '≥ 0.97 × one node without --cluster',
        met: ratio >= 0.97,
      })
    }
  } finally {
    client.stop()
    await alone.stop()
    await cluster.stop()
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

/** A GET at a node that does not have the cell, next to one at the owner; and the same of the least program that does it. */
export async function forwarded(): Promise<void> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-bare-'))
  const client = new Client()
  const cluster = await BenchCluster.start()
  const bare = await startBaseline(directory)
  const proxy = await startBaseline(directory, {
    program: 'cluster/bare-proxy.ts',
    args: [String(bare.port)],
  })
  try {
    const [cell] = await createCells(cluster.node(0), 1)
    const paths = keys.map((key) => `${cell}/kv/${key}`)
    const barePaths = keys.map((key) => `/${key}`)
    const contenders = {
      direct: { server: cluster.node(0), paths },
      forwarded: { server: cluster.node(1), paths },
      bare: { server: bare, paths: barePaths },
      proxied: { server: proxy, paths: barePaths },
    }
    const { direct: writes, bare: bareWrites } = contenders
    await measure(client, 'PUT', { writes, bareWrites })
    const { direct, forwarded, bare: one, proxied } = await measure(client, 'GET', contenders)
    const ratio = forwarded.rate / direct.rate
    report({
      what: 'GET through another node',
      ours: shown(forwarded),
      theirs: shown(direct),
      ratio,
      aim: '≥ 0.5 × asked at the owner',
      met: ratio >= 0.5,
    })
    report({
      what: 'GET through a bare node:http proxy',
      ours: shown(proxied),
      theirs: shown(one),
      ratio: proxied.rate / one.rate,
      aim: 'a limit: the bare server asked itself',
      met: undefined,
    })
    reportMore('32 clients, as fast as they are answered', forwarded, direct, 1.5)
    reportMore('the same through a bare proxy', proxied, one)
    const perSecond = Math.round(forwarded.rate / 2)
    const { direct: near, forwarded: far } = await measure(
      client,
      'GET',
      { direct: contenders.direct, forwarded: contenders.forwarded },
      perSecond,
    )
    reportMore(`32 connections, ${perSecond.toLocaleString('en')} requests/s`, far, near, 1.5)
  } finally {
    client.stop()
    for (const server of [proxy, bare]) await server.stop()
    await cluster.stop()
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

function reportMore(what: string, far: { median: number }, near: { median: number }, msMore?: number): void {
  const more = far.median - near.median
  report({
    what: `median of such a GET, ${what}`,
    ours: `${far.median.toFixed(2)} ms`,
    theirs: `${near.median.toFixed(2)} ms`,
    ratio: near.median / far.median,
    aim:
      msMore === undefined
        ? `a limit: ${more.toFixed(2)} ms more`
        : `≤ ${msMore} ms more: ${more.toFixed(2)}`,
    met: msMore === undefined ? undefined : more <= msMore,
  })
}
