import { expect, test, vi } from 'vitest'
import { countOf } from '../support/counts.ts'
import { record, replay } from '../support/faults/power-losses.ts'
import { noStrace } from '../support/faults/strace.ts'
import { seededRandom } from '../support/seed.ts'

const STATES = countOf('CELLSTORE_POWER_LOSSES')
/** Of each thread. The store and its cells are made by then, and later ones come also in short runs. */
const FIRST_FSYNC = 70
const LAST_FSYNC = 110

vi.setConfig({ testTimeout: 180_000 + STATES * 2_000 })

test.runIf(noStrace !== undefined)(`failed fsyncs were not tested: ${noStrace}`, () => {})

test.skipIf(noStrace !== undefined)(
  `after an fsync that fails once, and a power loss at any moment, nothing acknowledged is lost, half or damaged, and each cell serves (invariants 1, 10; ${STATES} states)`,
  async () => {
    const random = seededRandom()
    const when = FIRST_FSYNC + random.below(LAST_FSYNC - FIRST_FSYNC + 1)
    const injection = { call: 'fsync', fault: 'EIO', when }
    const recording = await record('failing-log-program.ts', 'full', random, 'none', injection)
    const failed = recording.calls.filter(({ name, errno }) => name === 'fsync' && errno === 'EIO')
    expect(failed.length).toBeGreaterThan(0)
    await replay(recording, { durability: 'full', promised: 'full', states: STATES }, random)
  },
)
