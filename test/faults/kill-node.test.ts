import { expect, test, vi } from 'vitest'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { countOf } from '../support/counts.ts'
import { HttpWriters } from '../support/faults/http-writers.ts'
import { checkIntegrity } from '../support/integrity.ts'
import { archiversOf, descendantsOf, isAlive } from '../support/processes.ts'
import { seededRandom } from '../support/seed.ts'
import { until } from '../support/until.ts'

const KILLS = countOf('CELLSTORE_NODE_KILLS')
const CELLS = 12
const CLIENTS = 2
/** After so many kills of the node it is stopped, and SQLite checks every file. */
const KILLS_BETWEEN_CHECKS = 25

vi.setConfig({ testTimeout: 180_000 + KILLS * 20_000 })

test.each([
  ['with two workers', ['--workers', '2']],
  ['in one process', ['--workers', '0']],
] as const)(
  `after kill -9 of a node %s, or of a worker or the archiver of it, under HTTP writes, every acknowledged one is there, whole and once (invariants 1, 2; ${KILLS} kills)`,
  async (_how, flags) => {
    const random = seededRandom()
    const place = new Workplace()
    const serve = () => place.serve(...flags)
    let node = await serve()
    const writers = await HttpWriters.create(node, CELLS)
    const starts: number[] = []
    let workersKilled = 0
    let archiversKilled = 0
    let nodesKilled = 0
    for (let kill = 1; kill <= KILLS; kill++) {
      const stop = writers.start(node, CLIENTS, random)
      await untilAcknowledged(writers, 1 + random.below(80), node)
      const children = descendantsOf(node.pid)
      const archivers = archiversOf(node.pid)
      const workers = children.filter((pid) => !archivers.includes(pid))
      const victims = random.pick([workers, archivers, []])
      if (victims.length > 0) {
        process.kill(random.pick(victims), 'SIGKILL')
        if (victims === archivers) archiversKilled++
        else workersKilled++
        await untilAcknowledged(writers, 1 + random.below(40), node)
        await stop()
      } else {
        node.child.kill('SIGKILL')
        nodesKilled++
        await node.ended
        await stop()
        const started = performance.now()
        node = await serve()
        starts.push(performance.now() - started)
        // Nothing that the killed node has left may still write, or hold anything.
        expect(children.filter(isAlive)).toEqual([])
      }
      await writers.check(node)
      if (kill % KILLS_BETWEEN_CHECKS !== 0 && kill !== KILLS) continue
      expect(await node.stop()).toEqual([0, null])
      checkIntegrity(place.dataDir)
      if (kill < KILLS) node = await serve()
    }
    console.info(
      `${flags.join(' ')}: ${nodesKilled} nodes, ${workersKilled} workers and ${archiversKilled} archivers killed, ${writers.acknowledged} acknowledged, statuses ${JSON.stringify(writers.statuses)}, slowest start ${Math.round(Math.max(0, ...starts))} ms`,
    )
  },
)

async function untilAcknowledged(writers: HttpWriters, more: number, node: ServedNode): Promise<void> {
  const goal = writers.acknowledged + more
  await until(() => writers.acknowledged >= goal || node.child.exitCode !== null, 'the writers get on')
  expect(node.child.exitCode).toBe(null)
}
