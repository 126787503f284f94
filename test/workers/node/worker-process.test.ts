import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Host, type HostMessage } from '../../../src/workers/node/worker-process.ts'
import type { HostSettings } from '../../../src/workers/protocol/protocol.ts'
import { childrenOf, isAlive } from '../../support/processes.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { HostedStore, openHostedStore } from '../../support/worker-store.ts'

const MIB = 1_048_576

/** What a process has open beside its standard streams, as the system names it. */
function openIn(pid: number): string[] {
  return fs.readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    if (Number(fd) <= 2) return []
    try {
      return [fs.readlinkSync(`/proc/${pid}/fd/${fd}`)]
    } catch {
      return []
    }
  })
}

function setNodeOptions(value: string): void {
  const before = process.env['NODE_OPTIONS']
  process.env['NODE_OPTIONS'] = value
  onTestFinished(() => {
    if (before === undefined) delete process.env['NODE_OPTIONS']
    else process.env['NODE_OPTIONS'] = before
  })
}

test('hosts have nothing of their node open: neither its sockets, nor the store’s lock, nor the catalog (invariants 2, 4)', async () => {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const hosted = await openHostedStore()
  const { id } = hosted.store.createCell()
  await hosted.service.execute(id, { op: 'kv.put', key: 'k', value: 'v' })
  const { hosts } = hosted
  expect(hosts).toHaveLength(2)
  for (const pid of hosts) {
    const open = openIn(pid)
    // The messages to it and from it.
    expect(open.filter((target) => target.startsWith('socket:'))).toHaveLength(2)
    const files = open.filter((target) => target.startsWith(hosted.directory))
    const names = new Set(files.map((file) => path.basename(file).replace(/-(wal|shm)$/, '')))
    expect([...names].filter((name) => !['hosts.db', 'local.db', 'cell.db'].includes(name))).toEqual([])
  }
})

test('a host’s memory is limited by the system too', async () => {
  const hosted = await openHostedStore({ service: { limits: { memoryMax: 300 * MIB } } })
  for (const pid of hosted.hosts) {
    const limits = fs.readFileSync(`/proc/${pid}/limits`, 'utf8')
    const [, soft] = /^Max data size\s+(\d+)/m.exec(limits) ?? []
    expect(Number(soft)).toBeGreaterThan(300 * MIB)
    expect(Number(soft)).toBeLessThan(1_000 * MIB)
  }
})

test('a debugger that the node was started for is not asked for by its hosts', async () => {
  setNodeOptions('--inspect-brk=127.0.0.1:0 --no-deprecation')
  const hosted = await openHostedStore()
  const { id } = hosted.store.createCell()
  expect(await hosted.service.execute(id, { op: 'kv.incr', key: 'n' })).toMatchObject({ value: 1 })
})

test('a start whose hosts all end at once is given up, and leaves nothing behind', async () => {
  setNodeOptions('--no-such-option')
  const before = childrenOf(process.pid)
  const folder = tempDirectory('cellstore-hosts')
  await expect(HostedStore.start({ folder })).rejects.toMatchObject({ code: 'internal' })
  expect(childrenOf(process.pid).filter((pid) => !before.includes(pid) && isAlive(pid))).toEqual([])
  delete process.env['NODE_OPTIONS']
  const hosted = await HostedStore.start({ folder })
  await hosted.close()
})

test('a host that fails says why in the node’s log, and ends', async () => {
  const said: HostMessage[] = []
  const host = new Host(500 * MIB, (message) => said.push(message))
  host.begin({ dataDir: path.join(tempDirectory(), 'nowhere'), settings: {} } as HostSettings)
  await host.ended
  await expect(host.ready).rejects.toThrow()
  expect(said).toMatchObject([
    { type: 'log', level: 'error', err: { message: expect.stringContaining('open') } },
  ])
})

test('signals to the whole process group do not end a host: its node does (SIGTERM, SIGINT, SIGHUP)', async () => {
  const hosted = await openHostedStore()
  const { id } = hosted.store.createCell()
  for (const pid of hosted.hosts)
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid, signal)
  for (let n = 1; n <= 20; n++)
    expect(await hosted.service.execute(id, { op: 'kv.incr', key: 'n' })).toMatchObject({ value: n })
  // One that was still starting can not know yet.
  const used = hosted.lostHosts.filter(({ message }) => message.includes('another takes over'))
  expect(used).toEqual([])
  const { hosts } = hosted
  await hosted.store.close()
  expect(hosts.filter(isAlive)).toEqual([])
})
