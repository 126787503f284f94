import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { FileObjectStore } from '../src/backup/object-store/file/file-object-store.ts'
import type { ObjectStore } from '../src/backup/object-store/object-store.ts'
import { CellStore } from '../src/store/cell-store.ts'
import type { Cell } from '../src/store/open/cell.ts'
import type { StoreOptions } from '../src/store/settings/store-options.ts'
import { Client, cpuMs, memoryMb, type Served, startCellstore, storeVersions } from './http-process.ts'
import { LatePuts } from './shipping/late-puts.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * What shipping with a lag of 1 s costs: durable PUTs over HTTP to a node that ships and to one that does not, in pairs, with
 * the processor time of all of a node's processes; their memory; puts in the library. And what `remote` does with 1, 32 and 256 clients.
 */
const PAIRS = Number(process.env['CELLSTORE_BENCH_ROUNDS'] ?? 7)
const ROUND_MS = Number(process.env['CELLSTORE_BENCH_ROUND_MS'] ?? 2_000)
const CONNECTIONS = 32
const CELLS = 100
const LAG_MS = 1_000
/** In which what came in a round is shipped. */
const PAUSE_MS = 1.5 * LAG_MS
const RELAXED_PUTS = 10_000
const REMOTE_CLIENTS = [1, 32, 256]
const LATENCY_MS = 15
const COSTS_MAX = 0.05
const MEMORY_MB_MAX = 30

type Which = 'on' | 'off'
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-shipping-'))
try {
  console.log(HEAD)
  await overHttp()
  await relaxed()
  console.log('\n| `remote`, one cell | clients | puts a second | median | p99 |\n|---|---|---|---|---|')
  const folder = () => new FileObjectStore({ root: fs.mkdtempSync(path.join(directory, 'objects-')) })
  await remote('a folder', folder())
  await remote(`each PUT takes ${LATENCY_MS} ms`, new LatePuts(folder(), LATENCY_MS))
} finally {
  fs.rmSync(directory, { recursive: true, force: true })
}

/** In pairs; the one that is first is second in the next pair. @returns the median of the rates, and of the ratios */
async function pairs(rate: (which: Which) => Promise<number>) {
  const rates = { on: [] as number[], off: [] as number[] }
  const ratios: number[] = []
  for (let pair = 0; pair < PAIRS; pair++) {
    const got = { on: 0, off: 0 }
    for (const which of pair % 2 === 0 ? (['off', 'on'] as const) : (['on', 'off'] as const)) {
      got[which] = await rate(which)
      rates[which].push(got[which])
    }
    ratios.push(got.on / got.off)
  }
  return { on: median(rates.on), off: median(rates.off), ratio: median(ratios) }
}

async function overHttp(): Promise<void> {
  const client = new Client()
  const nodes: Partial<Record<Which, Served>> = {}
  try {
    nodes.off = await startNode('off', 'off')
    nodes.on = await startNode('on', `${LAG_MS / 1_000}s`)
    const { on, off } = nodes
    for (const count of [1, CELLS]) {
      const paths = { on: await cellsOf(on, count), off: await cellsOf(off, count) }
      const spent = { on: { puts: 0, cpuMs: 0 }, off: { puts: 0, cpuMs: 0 } }
      const rate = async (which: Which) => {
        const { port, key, pid } = nodes[which] as Served
        const headers = `x-api-key: ${key}\r\n`
        const load = { port, method: 'PUT', paths: paths[which], headers, connections: CONNECTIONS } as const
        const before = cpuMs(pid)
        const { rate, count: puts } = await client.run({ ...load, durationMs: ROUND_MS })
        // What it got is shipped, and the other one is not disturbed by that.
        if (which === 'on') await sleep(PAUSE_MS)
        spent[which].puts += puts
        spent[which].cpuMs += cpuMs(pid) - before
        return rate
      }
      for (const which of ['on', 'off'] as const) await rate(which)
      // Both have versions: those are no cost of shipping, and the histories begin with them.
      for (const which of ['on', 'off'] as const)
        await storeVersions(nodes[which] as Served, idsIn(paths[which]))
      await sleep(3 * LAG_MS)
      for (const which of ['on', 'off'] as const) spent[which] = { puts: 0, cpuMs: 0 }
      const what = `durable PUT over HTTP to ${count} ${count === 1 ? 'cell' : 'cells'}`
      costs(what, await pairs(rate))
      const perPut = { on: spent.on.cpuMs / spent.on.puts, off: spent.off.cpuMs / spent.off.puts }
      report({
        what: `processor time of ${what}, all processes`,
        ours: `${(perPut.on * 1_000).toFixed(0)} µs`,
        theirs: `${(perPut.off * 1_000).toFixed(0)} µs, without shipping`,
        ratio: perPut.off / perPut.on,
        aim: 'none',
        met: true,
      })
    }
    const memory = { on: memoryMb(on.pid), off: memoryMb(off.pid) }
    report({
      what: 'memory of node, workers and archiver',
      ours: `${memory.on.toFixed(0)} MB`,
      theirs: `${memory.off.toFixed(0)} MB, without shipping`,
      ratio: memory.off / memory.on,
      aim: `≤ ${MEMORY_MB_MAX} MB more`,
      met: memory.on - memory.off <= MEMORY_MB_MAX,
    })
  } finally {
    client.stop()
    for (const node of Object.values(nodes)) await node.stop()
  }
}

function startNode(name: string, maxLag: string): Promise<Served> {
  const objects = pathToFileURL(path.join(directory, name, 'objects')).href
  return startCellstore(path.join(directory, name), ['--max-lag', maxLag, '--object-store', objects])
}

function idsIn(paths: readonly string[]): Set<string> {
  return new Set(paths.map((each) => each.split('/')[3] as string))
}

/** The paths of a few keys in each of so many new cells. */
async function cellsOf({ port, key }: Served, count: number): Promise<string[]> {
  const paths: string[] = []
  for (let i = 0; i < count; i++) {
    const url = `http://127.0.0.1:${port}/v1/databases`
    const response = await fetch(url, { method: 'POST', headers: { 'x-api-key': key } })
    const { id } = (await response.json()) as { id: string }
    paths.push(`/v1/databases/${id}/kv/key`)
  }
  return Array.from({ length: 10 }, (_, i) => paths.map((each) => `${each}:${i}`)).flat()
}

/**
 * Puts in one turn of the event loop, so that nothing is shipped meanwhile: once without checkpoints, for what commits pay for
 * their times; once with them, which keep copies of the logs that were not shipped.
 */
async function relaxed(): Promise<void> {
  costs('relaxed put in the library', await relaxedPuts('relaxed', 1_073_741_824))
  const withCheckpoints = await relaxedPuts('relaxed-kept', undefined)
  report({ ...comparison('the same with checkpoints', withCheckpoints), aim: 'none', met: true })
}

async function relaxedPuts(name: string, checkpointBytes: number | undefined) {
  const open = (which: Which) => {
    const objectStore = pathToFileURL(path.join(directory, `${name}-${which}-objects`)).href
    const backups = { drillEveryMs: null, maxLagMs: which === 'on' ? LAG_MS : null }
    return openStore(`${name}-${which}`, { objectStore, durability: 'relaxed', checkpointBytes, backups })
  }
  const stores = { on: await open('on'), off: await open('off') }
  try {
    const cells = { on: stores.on.createCell(), off: stores.off.createCell() }
    let puts = 0
    const rate = async (which: Which) => {
      const { kv } = cells[which]
      const started = performance.now()
      for (let i = 0; i < RELAXED_PUTS; i++) kv.put(`key:${i % 1_000}`, `${'v'.repeat(100)}${puts++}`)
      const rate = (RELAXED_PUTS / (performance.now() - started)) * 1_000
      if (which === 'on') await sleep(PAUSE_MS)
      return rate
    }
    for (const which of ['on', 'off'] as const) {
      await rate(which)
      await stores[which].backups.snapshot(cells[which].id)
    }
    return await pairs(rate)
  } finally {
    for (const store of Object.values(stores)) await store.close()
  }
}

async function remote(what: string, objectStore: ObjectStore): Promise<void> {
  const store = await openStore(what.replaceAll(' ', '-'), {
    objectStore,
    durability: 'remote',
    backups: { drillEveryMs: null },
  })
  try {
    const cell = store.createCell()
    await store.backups.snapshot(cell.id)
    for (const clients of REMOTE_CLIENTS) {
      const { times, seconds } = await commits(cell, clients)
      const at = (share: number) => `${(times[Math.floor(times.length * share)] ?? Number.NaN).toFixed(0)} ms`
      console.log(
        `| ${what} | ${clients} | ${Math.round(times.length / seconds).toLocaleString('en')} | ${at(0.5)} | ${at(0.99)} |`,
      )
    }
  } finally {
    await store.close()
  }
}

/** @returns how long each took, in order of length, in milliseconds */
async function commits(cell: Cell, clients: number): Promise<{ times: number[]; seconds: number }> {
  const times: number[] = []
  const started = performance.now()
  const until = started + 2 * ROUND_MS
  const one = async (_: unknown, client: number) => {
    for (let n = 0, now = performance.now(); now < until; n++) {
      await cell.commit(() => cell.kv.put(`key:${client}`, `${'v'.repeat(100)}${n}`))
      const ended = performance.now()
      times.push(ended - now)
      now = ended
    }
  }
  await Promise.all(Array.from({ length: clients }, one))
  return { times: times.sort((a, b) => a - b), seconds: (performance.now() - started) / 1_000 }
}

function openStore(name: string, options: StoreOptions): Promise<CellStore> {
  return CellStore.create(path.join(directory, name, 'data'), options)
}

type Pairs = Awaited<ReturnType<typeof pairs>>

function costs(what: string, compared: Pairs): void {
  const met = compared.ratio >= 1 - COSTS_MAX
  report({ ...comparison(what, compared), aim: `≥ ${1 - COSTS_MAX} ×`, met })
}

function comparison(what: string, { on, off, ratio }: Pairs) {
  const rate = (value: number) => `${Math.round(value).toLocaleString('en')}/s`
  const ours = `${rate(on)} with a lag of ${LAG_MS / 1_000} s`
  return { what, ours, theirs: `${rate(off)}, without shipping`, ratio }
}
