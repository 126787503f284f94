import { expect, test, vi } from 'vitest'
import { Workplace } from '../../support/cli/workplace.ts'
import { countOf } from '../../support/counts.ts'
import { HranaWriters } from '../../support/faults/hrana-writers.ts'
import { checkIntegrity } from '../../support/integrity.ts'
import { archiversOf, descendantsOf } from '../../support/processes.ts'
import { seededRandom } from '../../support/seed.ts'
import { until } from '../../support/until.ts'

const KILLS = countOf('CELLSTORE_HRANA_KILLS')
const CELLS = 4
const CLIENTS = 3

vi.setConfig({ testTimeout: 180_000 + KILLS * 20_000 })

test.each([
  ['with two workers', ['--workers', '2']],
  ['in one process', ['--workers', '0']],
] as const)(
  `after kill -9 of a node %s, or of a worker of it, under transactions over Hrana beside plain operations, each acknowledged COMMIT is there once, a refused one is not, and of all others all or nothing (invariants 1, 2, 8; ${KILLS} kills)`,
  async (_how, flags) => {
    const random = seededRandom()
    const place = new Workplace()
    let node = await place.serve(...flags)
    const writers = await HranaWriters.create(node, CELLS)
    const getOn = async (more: number) => {
      const goal = writers.acknowledged + more
      await until(() => writers.acknowledged >= goal || node.child.exitCode !== null, 'the writers get on')
      expect(node.child.exitCode).toBe(null)
    }
    const killed = { nodes: 0, workers: 0 }
    for (let kill = 1; kill <= KILLS; kill++) {
      const stop = writers.start(node, { clients: CLIENTS, random })
      await getOn(1 + random.below(150))
      const archivers = archiversOf(node.pid)
      const workers = descendantsOf(node.pid).filter((pid) => !archivers.includes(pid))
      // Most questions are those of workers that end.
      if (workers.length > 0 && random.chance(0.75)) {
        process.kill(random.pick(workers), 'SIGKILL')
        killed.workers++
        await getOn(1 + random.below(100))
        await stop()
      } else {
        node.child.kill('SIGKILL')
        killed.nodes++
        await node.ended
        await stop()
        node = await place.serve(...flags)
      }
      await writers.check(node)
    }
    expect(await node.stop()).toEqual([0, null])
    checkIntegrity(place.dataDir)
    const { outcomes, answers } = writers
    for (const kind of ['held', 'grouped', 'autocommit', 'following', 'sql', 'batch', 'kv'])
      expect(outcomes[`${kind} committed`], kind).toBeGreaterThan(0)
    console.info(
      `${flags.join(' ')}: killed ${JSON.stringify(killed)}; ${JSON.stringify(outcomes)}; ${JSON.stringify(answers)}`,
    )
  },
)
