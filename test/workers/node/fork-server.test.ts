import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/log.ts'
import type { Child } from '../../../src/workers/children/child.ts'
import { ChildLink } from '../../../src/workers/children/child-link.ts'
import { ForkServer } from '../../../src/workers/children/fork-server.ts'
import { Workplace } from '../../support/cli/workplace.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { descendantsOf, forkServersOf, isAlive } from '../../support/processes.ts'
import { statementsOf } from '../../support/request-bounds.ts'
import { until } from '../../support/until.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

const MIB = 1_048_576
const ASKS = path.join(import.meta.dirname, '../../support/faults/programs/fork-server-program.ts')
const WORKER = { child: 'worker', memoryMax: 500 * MIB } as const

/** Of other tests of this process. */
let others: readonly number[]

beforeEach(() => {
  others = forkServersOf(process.pid)
})

function own(): number[] {
  return forkServersOf(process.pid).filter((pid) => !others.includes(pid) && isAlive(pid))
}

function forkServer(clock: Clock = systemClock): ForkServer {
  const forks = new ForkServer(clock, silentLog)
  onTestFinished(() => forks.stop())
  return forks
}

/** Asks a worker whether it is there. @returns its answer */
async function answerOf(child: Child): Promise<unknown> {
  return await new Promise((resolve) => {
    new ChildLink<object, unknown>(child, resolve).send({ type: 'ping' })
  })
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

test('a node forks one small process, which starts its workers: however much memory the node has, none of it is copied for them', async () => {
  const node = await openWorkerStore()
  const [server] = own()
  for (const worker of node.workers) expect(parentOf(worker)).toBe(server)
  const [killed] = node.workers
  process.kill(killed as number, 'SIGKILL')
  const { id } = node.store.createCell()
  await until(() => !node.workers.includes(killed as number), 'it is replaced')
  expect(await node.service.execute(id, { op: 'kv.incr', key: 'n' })).toMatchObject({ value: 1 })
  for (const worker of node.workers) expect(parentOf(worker)).toBe(server)
  await node.close()
  expect(own()).toEqual([])
})

test('a child says what it says at once, and how it ended', async () => {
  const forks = forkServer()
  const children = await Promise.all(Array.from({ length: 6 }, () => forks.start(WORKER)))
  for (const child of children) expect(await answerOf(child)).toEqual({ type: 'pong' })
  expect(children.map(({ hasExited }) => hasExited)).toEqual(children.map(() => false))
  for (const child of children) child.kill()
  await Promise.all(children.map(({ ended }) => ended))
  for (const { hasExited, signal, requests, answers } of children)
    expect({ hasExited, signal, isClosed: requests.destroyed && answers.destroyed }).toEqual({
      hasExited: true,
      signal: 'SIGKILL',
      isClosed: true,
    })
})

test('if the fork server is killed, its children work on, their ends are noticed, and another one starts the next (invariant 2)', async () => {
  const forks = forkServer()
  const orphan = await forks.start(WORKER)
  const [first] = own()
  process.kill(first as number, 'SIGKILL')
  await until(() => own().length === 0, 'it is gone')
  expect(await answerOf(orphan)).toEqual({ type: 'pong' })
  const next = await forks.start(WORKER)
  expect(own()).not.toContain(first)
  expect(await answerOf(next)).toEqual({ type: 'pong' })
  orphan.kill()
  await orphan.ended
  expect(orphan).toMatchObject({ hasExited: true, signal: null })
  expect(next.hasExited).toBe(false)
  next.kill()
  await next.ended
})

/** A start that is asked for while the fork server is stopped, and a process that it has started before. */
async function startWhileStopped(forks: ForkServer) {
  const before = await forks.start(WORKER)
  const server = own()[0] as number
  process.kill(server, 'SIGSTOP')
  return { before, server, starting: forks.start(WORKER) }
}

test('a fork server that is stuck is ended after ten seconds, and another one starts what it was asked for', async () => {
  const clock = new FakeClock()
  const forks = forkServer(clock)
  const { before, server: stuck, starting } = await startWhileStopped(forks)
  clock.advance(9_999)
  expect(isAlive(stuck)).toBe(true)
  clock.advance(1)
  const again = await starting
  expect(isAlive(stuck)).toBe(false)
  expect(await answerOf(again)).toEqual({ type: 'pong' })
  for (const child of [before, again]) child.kill()
  await Promise.all([before.ended, again.ended])
})

test('a node that stood still for long blames no fork server for it', async () => {
  const clock = new FakeClock()
  const forks = forkServer(clock)
  const { before, server, starting } = await startWhileStopped(forks)
  // All of it in one look, as for a process that was stopped.
  clock.advance(5_000)
  process.kill(server, 'SIGCONT')
  const child = await starting
  expect(own()).toEqual([server])
  for (const each of [before, child]) each.kill()
  await Promise.all([before.ended, child.ended])
})

test('the end of a process is noticed while its fork server is stuck: how it ended is not known then', async () => {
  const clock = new FakeClock()
  const forks = forkServer(clock)
  const child = await forks.start(WORKER)
  child.answers.resume()
  const [stuck] = own()
  process.kill(stuck as number, 'SIGSTOP')
  onTestFinished(() => void process.kill(stuck as number, 'SIGCONT'))
  child.kill()
  await until(() => child.answers.closed, 'its pipe has ended')
  expect(child.hasExited).toBe(false)
  await until(() => clock.nextTimerMs !== undefined, 'it waits for the news')
  clock.advance(1_000)
  await child.ended
  expect(child).toMatchObject({ hasExited: true, signal: null })
})

test('a node whose fork server is stuck ends the statements that take too long, and stops', async () => {
  const node = await openWorkerStore({ service: { bounds: statementsOf(200) } })
  const { id } = node.store.createCell()
  await node.service.execute(id, { op: 'kv.incr', key: 'n' })
  const [stuck] = own()
  process.kill(stuck as number, 'SIGSTOP')
  const endless = 'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c'
  await expect(node.service.execute(id, { op: 'sql', sql: endless })).rejects.toMatchObject({
    code: 'statement_timeout',
  })
  expect(await node.service.execute(id, { op: 'kv.incr', key: 'n' })).toMatchObject({ value: 2 })
  await node.close()
  expect(isAlive(stuck as number)).toBe(false)
})

test('what is being started when the fork server is killed is started by the next one', async () => {
  const forks = forkServer()
  const starting = [forks.start(WORKER), forks.start(WORKER)]
  await until(() => own().length > 0, 'the fork server is there')
  for (const pid of own()) process.kill(pid, 'SIGKILL')
  for (const child of await Promise.all(starting)) {
    expect(await answerOf(child)).toEqual({ type: 'pong' })
    child.kill()
    await child.ended
  }
})

test.each([0, 10, 20, 30, 45, 60])(
  'a fork server whose node is killed %i ms after its start ends too, and leaves nothing',
  async (ms) => {
    const node = spawn(process.execPath, [ASKS], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [printed] = await once(node.stdout, 'data')
    const server = Number(printed)
    await new Promise((resolve) => setTimeout(resolve, ms))
    const started = descendantsOf(server)
    node.kill('SIGKILL')
    await until(() => !isAlive(server), 'the fork server has ended')
    await until(() => !started.some(isAlive), 'its worker has ended')
  },
)

test('a node that is killed takes its fork server along, and every process that it has started (invariant 2)', async () => {
  const node = await new Workplace().serve()
  const all = descendantsOf(node.pid)
  expect(all).toEqual(expect.arrayContaining(forkServersOf(node.pid)))
  expect(forkServersOf(node.pid)).toHaveLength(1)
  node.child.kill('SIGKILL')
  await node.ended
  await until(() => !all.some(isAlive), 'all have ended')
})

test('a fork server that was stopped starts nothing', async () => {
  const forks = forkServer()
  const child = await forks.start(WORKER)
  child.kill()
  await child.ended
  await forks.stop()
  expect(own()).toEqual([])
  await expect(forks.start(WORKER)).rejects.toThrow('has ended')
})

test('a kill of a process that has exited hits no other one, though its pid may be used again', async () => {
  const forks = forkServer()
  const child = await forks.start(WORKER)
  const other = await forks.start(WORKER)
  child.kill()
  await child.ended
  const { pid, startTime } = other.identity
  Object.assign(child, { identity: { pid, startTime: (startTime as number) - 1 }, hasExited: false })
  child.kill()
  expect(await answerOf(other)).toEqual({ type: 'pong' })
  other.kill()
  await other.ended
})
