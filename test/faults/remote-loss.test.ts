import fs from 'node:fs'
import { expect, test, vi } from 'vitest'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { countOf } from '../support/counts.ts'
import { HttpWriters } from '../support/faults/http-writers.ts'
import { archiversOf, descendantsOf } from '../support/processes.ts'
import { seededRandom } from '../support/seed.ts'
import { until } from '../support/until.ts'

const LOSSES = countOf('CELLSTORE_REMOTE_LOSSES')
const CELLS = 4
const CLIENTS = 3

vi.setConfig({ testTimeout: 180_000 + LOSSES * 30_000 })

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
    let workersKilled = 0
    let archiversKilled = 0
    for (let loss = 1; loss <= LOSSES; loss++) {
      const stop = writers.start(node, CLIENTS, random)
      await atAcknowledgement(writers, 1 + random.below(60), node, () => {
        const archivers = archiversOf(node.pid)
        const workers = descendantsOf(node.pid).filter((pid) => !archivers.includes(pid))
        const victims = random.pick([workers, archivers, []])
        for (const pid of victims.slice(0, 1)) process.kill(pid, 'SIGKILL')
        if (victims === archivers) archiversKilled += victims.length
        else workersKilled += Math.min(1, victims.length)
      })
      await atAcknowledgement(writers, 1 + random.below(30), node, () => node.child.kill('SIGKILL'))
      await node.ended
      await stop()
      fs.rmSync(place.dataDir, { recursive: true, maxRetries: 10 })
      node = await serve()
      await writers.check(node)
    }
    expect(await node.stop()).toEqual([0, null])
    console.info(
      `${flags.join(' ')}: ${LOSSES} directories lost, ${workersKilled} workers and ${archiversKilled} archivers killed, ${writers.acknowledged} acknowledged, statuses ${JSON.stringify(writers.statuses)}`,
    )
  },
)

/** Calls `kill` when so many more acknowledgements have arrived: what the last one promised was shipped a moment ago. */
async function atAcknowledgement(
  writers: HttpWriters,
  more: number,
  node: ServedNode,
  kill: () => void,
): Promise<void> {
  const goal = writers.acknowledged + more
  let isKilled = false
  writers.onAcknowledged = () => {
    if (isKilled || writers.acknowledged < goal) return
    isKilled = true
    kill()
  }
  await until(() => isKilled || node.child.exitCode !== null, 'the writers get on')
  expect(isKilled).toBe(true)
}
