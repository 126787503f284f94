import { describe, expect, test, vi } from 'vitest'
import type { Durability } from '../../src/engine/cell-settings.ts'
import { countOf } from '../support/counts.ts'
import { leaveOneOut, redoNothing, redoOverNewer } from '../support/faults/faulty-redo.ts'
import { type Recording, record, replay } from '../support/faults/power-losses.ts'
import { noStrace } from '../support/faults/strace.ts'
import { Random } from '../support/random.ts'
import { SEED, seededRandom } from '../support/seed.ts'

const STATES = countOf('CELLSTORE_POWER_LOSSES')

/** With these seeds so many states show each fault. */
const FAULTY_SEED = 8
const MEDDLED_SEED = 18
const FAULTY_STATES = 300
const FULL = { durability: 'full', promised: 'full' } as const

vi.setConfig({ testTimeout: 180_000 + STATES * 2_000 })

/** A recording is the longest part of a test: what only reads one shares it. */
const recordings = new Map<string, Promise<Recording>>()

function recordOnce(program: string, durability: Durability, seed = SEED): Promise<Recording> {
  const what = `${program} ${durability} ${seed}`
  const known = recordings.get(what)
  if (known !== undefined) return known
  const recording = record(program, durability, new Random(seed))
  recordings.set(what, recording)
  return recording
}

test.runIf(noStrace !== undefined)(`power losses were not tested: ${noStrace}`, () => {})

test.skipIf(noStrace !== undefined).each([
  ['full', 'full', 'ledger-program.ts'],
  ['relaxed', 'relaxed', 'ledger-program.ts'],
  ['workers', 'full', 'worker-program.ts'],
  ['shared commits', 'full', 'shared-program.ts'],
] as const)(
  `after a power loss at any moment of a %s store nothing acknowledged is lost, half or damaged (invariants 1, 10, 14; ${STATES} states)`,
  async (_what, durability, program) => {
    const recording = await recordOnce(program, durability)
    const told = { durability, promised: durability, states: STATES }
    const { backups } = await replay(recording, told, seededRandom())
    console.info(
      `${STATES} states of ${recording.changes.length} changes, ${backups.length} backups: nothing lost`,
    )
  },
)

test.skipIf(noStrace !== undefined)(
  'what a relaxed store loses would be seen if full were promised',
  async () => {
    const recording = await recordOnce('ledger-program.ts', 'relaxed')
    const told = { durability: 'relaxed', promised: 'full', states: 300 } as const
    const replaying = replay(recording, told, seededRandom())
    await expect(replaying).rejects.toThrow(/and may be/)
  },
)

describe.skipIf(noStrace !== undefined)('a power loss shows a commit log', () => {
  test.each([
    // More than a row can be gone: then the cell's file is damaged, and the cell stays closed.
    ['no fdatasync', /and may be|still not: the cell serves/],
    ['early rotation', /and may be/],
  ])('with %s', async (fault, shown) => {
    const random = new Random(FAULTY_SEED)
    const recording = await record('shared-program.ts', 'full', random, fault)
    await expect(replay(recording, { ...FULL, states: FAULTY_STATES }, random)).rejects.toThrow(shown)
  })

  test.each([
    ['that leaves a record out', leaveOneOut],
    ['that is not redone', redoNothing],
    ['that is redone over a newer WAL', redoOverNewer],
  ])('%s', async (_what, meddle) => {
    const recording = await recordOnce('shared-program.ts', 'full', FAULTY_SEED)
    const told = { ...FULL, states: FAULTY_STATES, meddle }
    const replaying = replay(recording, told, new Random(MEDDLED_SEED))
    await expect(replaying).rejects.toThrow(/^State/)
  })
})
