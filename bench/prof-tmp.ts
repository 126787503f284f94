import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Client, type Served, startCellstore } from './http-process.ts'

const CELLS = Number(process.env['CELLS'] ?? 100)
const ROUNDS = Number(process.env['ROUNDS'] ?? 4)
const MS = Number(process.env['MS'] ?? 3000)
const WHICH = (process.env['WHICH'] ?? 'off,on').split(',')
const LAG = process.env['LAG'] ?? '1s'
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'shipcost-'))

function processes(pid: number): { pid: number; role: string }[] {
  const cmd = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ')
  const role = /archiver/.test(cmd) ? 'archiver' : /worker\.js|worker-main/.test(cmd) ? 'worker' : 'node'
  const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
  return [{ pid, role }, ...children.flatMap((c) => processes(Number(c)))]
}
function cpu(pid: number) {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
  const f = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { user: Number(f[11]) * 10, sys: Number(f[12]) * 10 }
}
function mem(pid: number) {
  const s = fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  const g = (n: string) =>
    Math.round((Number(new RegExp(`^${n}:\\s+(\\d+)`, 'm').exec(s)?.[1]) * 1024) / 1e5) / 10
  return { rss: g('Rss'), pss: g('Pss'), anon: g('Anonymous') }
}
async function cellsOf({ port, key }: Served, count: number): Promise<string[]> {
  const paths: string[] = []
  for (let i = 0; i < count; i++) {
    const response = await fetch(`http://127.0.0.1:${port}/v1/databases`, {
      method: 'POST',
      headers: { 'x-api-key': key },
    })
    const { id } = (await response.json()) as { id: string }
    paths.push(`/v1/databases/${id}/kv/key`)
  }
  return Array.from({ length: 10 }, (_, i) => paths.map((each) => `${each}:${i}`)).flat()
}
const client = new Client()
const nodes = new Map<string, { served: Served; paths: string[] }>()
try {
  for (const which of WHICH) {
    const objects = pathToFileURL(path.join(directory, which, 'objects')).href
    const served = await startCellstore(path.join(directory, which), [
      '--max-lag',
      which === 'on' ? LAG : 'off',
      '--object-store',
      objects,
    ])
    const paths = await cellsOf(served, CELLS)
    nodes.set(which, { served, paths })
  }
  const run = async (which: string, durationMs: number) => {
    const { served, paths } = nodes.get(which)!
    return await client.run({
      port: served.port,
      method: 'PUT',
      paths,
      headers: `x-api-key: ${served.key}\r\n`,
      connections: 32,
      durationMs,
    })
  }
  for (const which of WHICH) await run(which, 1500)
  await sleep(4000)
  const totals = new Map<string, { puts: number; user: number; sys: number; wall: number }>()
  const wall = new Map<string, number[]>()
  for (let r = 0; r < ROUNDS; r++) {
    for (const which of r % 2 ? WHICH.toReversed() : WHICH) {
      const procs = processes(nodes.get(which)!.served.pid)
      const before = procs.map(({ pid }) => cpu(pid))
      const { count, rate } = await run(which, MS)
      await sleep(2000)
      procs.forEach(({ pid, role }, i) => {
        const after = cpu(pid)
        const k = `${which} ${role}`
        const t = totals.get(k) ?? { puts: 0, user: 0, sys: 0, wall: 0 }
        if (role !== 'worker' || procs.findIndex((p) => p.role === 'worker') === i) t.puts += count
        t.user += after.user - before[i]!.user
        t.sys += after.sys - before[i]!.sys
        totals.set(k, t)
      })
      wall.set(which, [...(wall.get(which) ?? []), Math.round(rate)])
    }
  }
  for (const which of WHICH) console.log(which, 'rates', wall.get(which)!.join(' '))
  const sums = new Map<string, number>()
  for (const [k, t] of totals) {
    const per = ((t.user + t.sys) / t.puts) * 1000
    sums.set(k.split(' ')[0]!, (sums.get(k.split(' ')[0]!) ?? 0) + per)
    console.log(
      k.padEnd(14),
      'CPU ms per 1,000 PUTs:',
      per.toFixed(1),
      `(user ${((t.user / t.puts) * 1000).toFixed(1)}, sys ${((t.sys / t.puts) * 1000).toFixed(1)})`,
    )
  }
  for (const [k, v] of sums) console.log(k, 'all', v.toFixed(1))
  for (const which of WHICH) {
    let sum = 0
    for (const { pid, role } of processes(nodes.get(which)!.served.pid)) {
      const m = mem(pid)
      sum += m.pss
      console.log(which, role, pid, JSON.stringify(m))
    }
    console.log(which, 'pss all', sum.toFixed(0))
  }
  const walk = (d: string): number =>
    fs
      .readdirSync(d, { withFileTypes: true })
      .reduce(
        (s, e) => s + (e.isDirectory() ? walk(path.join(d, e.name)) : fs.statSync(path.join(d, e.name)).size),
        0,
      )
  for (const which of WHICH) {
    const o = path.join(directory, which, 'objects')
    if (!fs.existsSync(o)) continue
    for (const e of fs.readdirSync(o)) {
      try {
        console.log(which, e, (walk(path.join(o, e)) / 1e6).toFixed(2), 'MB')
      } catch {}
    }
    if (fs.existsSync(path.join(o, 'log')))
      console.log('log objects', fs.readdirSync(path.join(o, 'log')).length)
  }
} finally {
  client.stop()
  for (const { served } of nodes.values()) await served.stop()
  if (process.env['KEEP']) console.log(directory)
  else fs.rmSync(directory, { recursive: true, force: true })
}
