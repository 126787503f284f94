import fs from 'node:fs'
import { expect, test, vi } from 'vitest'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { countOf } from '../support/counts.ts'
import { HttpWriters } from '../support/faults/http-writers.ts'
import { childrenOf } from '../support/processes.ts'
import { seededRandom } from '../support/seed.ts'
import { until } from '../support/until.ts'

const LOSSES = countOf('CELLSTORE_REMOTE_LOSSES')
const CELLS = 4
const CLIENTS = 3

vi.setConfig({ testTimeout: 120_000 + LOSSES * 30_000 })

test.each([
  ['with two workers', ['--workers', '2']],
  ['in one process', ['--workers', '0']],
] as const)(
  `after kill -9 of a node %s and the loss of its whole directory, every change that was acknowledged with durability remote is there, whole and once (invariants 1, 14; ${LOSSES} losses)`,
  async (_how, flags) => {
    const random = seededRandom()
    const place = new Workplace()
    const serve = () => place.serve('--durability', 'remote', ...flags)
    let node = await serve()
    const writers = await HttpWriters.create(node, CELLS)
    let processesKilled = 0
    for (let loss = 1; loss <= LOSSES; loss++) {
      const stop = writers.start(node, CLIENTS, random)
      await untilAcknowledged(writers, 1 + random.below(60), node)
      // A worker or the archiver.
      const children = childrenOf(node.pid)
      if (children.length > 0 && random.chance(0.5)) {
        process.kill(random.pick(children), 'SIGKILL')
        processesKilled++
        await untilAcknowledged(writers, 1 + random.below(30), node)
      }
      node.child.kill('SIGKILL')
      await node.ended
      await stop()
      fs.rmSync(place.dataDir, { recursive: true, maxRetries: 10 })
      node = await serve()
      await writers.check(node)
    }
    expect(await node.stop()).toEqual([0, null])
    console.info(
      `${flags.join(' ')}: ${LOSSES} directories lost, ${processesKilled} workers and archivers killed, ${writers.acknowledged} acknowledged, statuses ${JSON.stringify(writers.statuses)}`,
    )
  },
)

async function untilAcknowledged(writers: HttpWriters, more: number, node: ServedNode): Promise<void> {
  const goal = writers.acknowledged + more
  await until(() => writers.acknowledged >= goal || node.child.exitCode !== null, 'the writers get on')
  expect(node.child.exitCode).toBe(null)
}
