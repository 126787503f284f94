import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ChildLink } from '../../../src/workers/children/child-link.ts'
import { spawnArchiver, spawnWorker } from '../../../src/workers/children/spawn-child.ts'
import { type WorkerMessage, WorkerProcess } from '../../../src/workers/node/processes/worker-process.ts'
import { MessageReader } from '../../../src/workers/protocol/messages.ts'
import { ANSWERS_FD, type FromWorker, type WorkerSettings } from '../../../src/workers/protocol/protocol.ts'
import { descendantsOf, isAlive } from '../../support/processes.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { until } from '../../support/until.ts'
import { openWorkerStore, WorkerStore } from '../../support/worker-store.ts'

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

function setVariable(name: string, value: string): void {
  const before = process.env[name]
  process.env[name] = value
  onTestFinished(() => {
    if (before === undefined) delete process.env[name]
    else process.env[name] = before
  })
}

function setNodeOptions(value: string): void {
  setVariable('NODE_OPTIONS', value)
}

/** The names of the variables that a process was started with. */
function variablesOf(pid: number): string[] {
  const block = fs.readFileSync(`/proc/${pid}/environ`, 'utf8')
  return block.split('\0').map((each) => each.split('=')[0] ?? '')
}

test('workers have nothing of their node open: neither its sockets, nor the store’s lock, nor the catalog (invariants 2, 4)', async () => {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const node = await openWorkerStore()
  const { id } = node.store.createCell()
  await node.service.execute(id, { op: 'kv.put', key: 'k', value: 'v' })
  const { workers } = node
  expect(workers).toHaveLength(2)
  for (const pid of workers) {
    const open = openIn(pid)
    // The messages to it and from it.
    expect(open.filter((target) => target.startsWith('socket:'))).toHaveLength(2)
    const files = open.filter((target) => target.startsWith(node.directory))
    const names = new Set(files.map((file) => path.basename(file).replace(/-(wal|shm)$/, '')))
    expect([...names].filter((name) => !['workers.db', 'local.db', 'cell.db'].includes(name))).toEqual([])
  }
})

test('a worker’s memory is limited by the system too', async () => {
  const node = await openWorkerStore({ service: { limits: { memoryMax: 300 * MIB } } })
  for (const pid of node.workers) {
    const limits = fs.readFileSync(`/proc/${pid}/limits`, 'utf8')
    const [, soft] = /^Max data size\s+(\d+)/m.exec(limits) ?? []
    expect(Number(soft)).toBeGreaterThan(300 * MIB)
    expect(Number(soft)).toBeLessThan(1_000 * MIB)
  }
})

test('workers get no secret of the node’s environment', async () => {
  for (const name of [
    'AWS_SECRET_ACCESS_KEY',
    'CELLSTORE_ROOT_KEY',
    'DATABASE_PASSWORD',
    'NODE_AUTH_TOKEN',
  ]) {
    setVariable(name, 'a secret')
  }
  const node = await openWorkerStore()
  for (const pid of node.workers) {
    expect(fs.readFileSync(`/proc/${pid}/environ`, 'utf8')).not.toContain('a secret')
    expect(variablesOf(pid)).toContain('PATH')
  }
})

test('only the archiver gets what S3 takes, and no other secret', async () => {
  for (const name of ['AWS_SECRET_ACCESS_KEY', 'AWS_PROFILE', 'CELLSTORE_ROOT_KEY', 'DATABASE_PASSWORD']) {
    setVariable(name, 'a secret')
  }
  const archiver = new ChildLink(spawnArchiver('s3://bucket/prefix'), () => {})
  onTestFinished(() => archiver.kill())
  // One look: the shell gives way to Node.js, and in between a process has no environment.
  let variables: string[] = []
  const hasThem = (pid: number, name: string) => {
    variables = variablesOf(pid)
    return variables.includes(name)
  }
  await until(() => hasThem(archiver.identity.pid, 'AWS_PROFILE'), 'the archiver has its environment')
  expect(variables).toContain('AWS_SECRET_ACCESS_KEY')
  expect(variables).not.toContain('CELLSTORE_ROOT_KEY')
  expect(variables).not.toContain('DATABASE_PASSWORD')
  const local = new ChildLink(spawnArchiver('file:///objects'), () => {})
  onTestFinished(() => local.kill())
  await until(() => hasThem(local.identity.pid, 'PATH'), 'the archiver has its environment')
  expect(variables).not.toContain('AWS_SECRET_ACCESS_KEY')
})

test('the archiver has a small space for new objects, whatever the node has: its heap has no room for more', async () => {
  setNodeOptions('--max-semi-space-size=32')
  const archiver = new ChildLink(spawnArchiver('file:///objects'), () => {})
  onTestFinished(() => archiver.kill())
  let options: string[] = []
  await until(() => {
    const command = fs.readFileSync(`/proc/${archiver.identity.pid}/cmdline`, 'utf8').split('\0')
    options = command.filter((option) => option.startsWith('--max-semi-space-size'))
    return options.length > 0
  }, 'the archiver has its command line')
  expect(options).toEqual(['--max-semi-space-size=4'])
})

test.runIf(process.platform === 'linux')(
  'the archiver yields to requests, with all its threads',
  async () => {
    const archiver = new ChildLink(spawnArchiver('file:///objects'), () => {})
    onTestFinished(() => archiver.kill())
    const threads = () => fs.readdirSync(`/proc/${archiver.identity.pid}/task`).map(Number)
    await until(() => threads().length > 1, 'the archiver has its threads')
    const priorities = threads().flatMap((thread) => {
      try {
        return [os.getPriority(thread)]
      } catch {
        // It has just ended.
        return []
      }
    })
    expect(new Set(priorities)).toEqual(new Set([os.getPriority() + 5]))
  },
)

test('a worker leaves no core dump: it would hold the data of tenants', async () => {
  const node = await openWorkerStore()
  for (const pid of node.workers) {
    expect(fs.readFileSync(`/proc/${pid}/limits`, 'utf8')).toMatch(/^Max core file size\s+0\s+0\s/m)
  }
})

test('a debugger that the node was started for is not asked for by its workers', async () => {
  setNodeOptions('--inspect-brk=127.0.0.1:0 --no-deprecation')
  const node = await openWorkerStore()
  const { id } = node.store.createCell()
  expect(await node.service.execute(id, { op: 'kv.incr', key: 'n' })).toMatchObject({ value: 1 })
})

const NOBODY = { isWatched: () => false, interrupted: () => {} }

test('a start whose workers all end at once is given up, and leaves nothing behind', async () => {
  setNodeOptions('--no-such-option')
  const before = descendantsOf(process.pid)
  const folder = tempDirectory('cellstore-workers')
  await expect(WorkerStore.start({ folder })).rejects.toMatchObject({ code: 'internal' })
  expect(descendantsOf(process.pid).filter((pid) => !before.includes(pid) && isAlive(pid))).toEqual([])
  delete process.env['NODE_OPTIONS']
  const node = await WorkerStore.start({ folder })
  await node.close()
})

test('a worker that fails says why in the node’s log, and ends', async () => {
  const said: WorkerMessage[] = []
  const worker = new WorkerProcess(spawnWorker(500 * MIB), NOBODY, (message) => said.push(message))
  worker.configure({ dataDir: path.join(tempDirectory(), 'nowhere'), settings: {} } as WorkerSettings)
  await worker.ended
  await expect(worker.ready).rejects.toThrow()
  expect(said).toMatchObject([
    { type: 'log', level: 'error', err: { message: expect.stringContaining('open') } },
  ])
})

test('signals to the whole process group do not end a worker: its node does (SIGTERM, SIGINT, SIGHUP)', async () => {
  const node = await openWorkerStore()
  const { id } = node.store.createCell()
  for (const pid of node.workers)
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid, signal)
  for (let n = 1; n <= 20; n++)
    expect(await node.service.execute(id, { op: 'kv.incr', key: 'n' })).toMatchObject({ value: n })
  // One that was still starting can not know yet.
  const used = node.lostWorkers.filter(({ message }) => message.includes('a new one takes its place'))
  expect(used).toEqual([])
  const { workers } = node
  await node.close()
  expect(workers.filter(isAlive)).toEqual([])
})

test('of cells whose watches are over, neither the node nor a worker remembers more than a thousand (invariant 13)', async () => {
  const told = new Map<string, boolean>()
  const send = vi.spyOn(ChildLink.prototype, 'send').mockImplementation((message) => {
    const { type, cellId, isWatched } = message as { type: string; cellId: string; isWatched: boolean }
    if (type === 'watch') told.set(cellId, isWatched)
  })
  let watched: string | undefined
  const watches = {
    isWatched: (cellId: string) => cellId === watched || cellId === 'first',
    interrupted: vi.fn(),
  }
  const worker = new WorkerProcess(spawnWorker(256 * MIB), watches, () => {})
  for (const cellId of ['first', ...Array.from({ length: 5_000 }, (_, i) => `cell ${i}`)]) {
    watched = cellId
    worker.runTask({ task: 'quarantine-state', cellId }, undefined).catch(() => {})
  }
  const remembered = [...told].filter(([, isWatched]) => isWatched).map(([cellId]) => cellId)
  send.mockRestore()
  worker.kill()
  await worker.ended
  expect(remembered.length).toBeLessThanOrEqual(1_001)
  expect(remembered).toEqual(expect.arrayContaining(['first', 'cell 4999']))
  expect(watches.interrupted.mock.calls.flat().sort()).toEqual(remembered.sort())
})

/** One more worker of a node, which nobody else gives work to, and cells that are open nowhere. */
async function workerWithCells(count: number) {
  const configure = vi.spyOn(WorkerProcess.prototype, 'configure')
  onTestFinished(() => void configure.mockRestore())
  const node = await openWorkerStore()
  const cellIds = Array.from({ length: count }, () => node.store.createCell().id)
  const child = spawnWorker(500 * MIB)
  const messages: FromWorker[] = []
  const reader = new MessageReader((message) => messages.push(message as FromWorker))
  const answers = child.stdio[ANSWERS_FD] as Readable
  answers.on('data', (chunk: Buffer) => reader.push(chunk))
  const worker = new WorkerProcess(child, NOBODY, () => {})
  onTestFinished(async () => {
    worker.stop()
    await worker.ended
  })
  worker.configure(configure.mock.calls[0]?.[0] as WorkerSettings)
  await worker.ready
  const record = (cellId: string) => node.store.findCell(cellId)
  const look = (cellId: string) => worker.runTask({ task: 'look-at-log', cellId }, record(cellId))
  return { worker, messages, cellIds, record, look }
}

test('a batch waits for the tasks of its own cells, and for one of those of others', async () => {
  const { worker, messages, cellIds, record, look } = await workerWithCells(60)
  const last = cellIds.at(-1) as string
  const tasks = cellIds.map((cellId) => look(cellId))
  worker.runBatch([{ cellId: last, operations: [{ op: 'kv.get', key: 'k' }] }], record)
  await Promise.all(tasks)
  await until(() => messages.some(({ type }) => type === 'done'), 'the batch ends')
  // The order in which the worker said so: here, all of it may come in one piece.
  const ended = messages.filter(({ type }) => type === 'reply' || type === 'done')
  const before = ended.slice(
    0,
    ended.findIndex(({ type }) => type === 'done'),
  )
  expect(before).toContainEqual(expect.objectContaining({ type: 'reply', id: cellIds.length }))
  expect(before.length).toBeLessThan(cellIds.length)
})

test('a worker that is told to stop answers all of its tasks first', async () => {
  const { worker, cellIds, look } = await workerWithCells(20)
  const tasks = cellIds.map((cellId) => look(cellId))
  worker.stop()
  await Promise.all(tasks)
  await worker.ended
})

test('what came before a reset of all histories is done before it: it belongs to the time before that', async () => {
  const { worker, cellIds, look } = await workerWithCells(60)
  let ended = 0
  for (const cellId of cellIds) void look(cellId).then(() => ended++)
  worker.resetHistories('histories ended')
  while (worker.openResets.length > 0) await new Promise(setImmediate)
  expect(ended).toBe(cellIds.length)
})
