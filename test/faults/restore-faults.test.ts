import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import { countOf } from '../support/counts.ts'
import { RestorePlace } from '../support/faults/restore-place.ts'
import { type Injection, noStrace, ProgramUnderStrace, type TraceOptions } from '../support/faults/strace.ts'
import { callsByName, faultsOf, sampleFaults } from '../support/faults/sweep.ts'
import { seededRandom } from '../support/seed.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const FAULTS = countOf('CELLSTORE_RESTORE_FAULTS')

vi.setConfig({ testTimeout: 7_200_000 })

test.runIf(noStrace !== undefined)(`faults in a restore were not tested: ${noStrace}`, () => {})

test.skipIf(noStrace !== undefined)(
  `a restore that fails or is killed at any of its system calls leaves the old cell or the new one, whole (invariant 10; ${FAULTS} faults)`,
  async () => {
    const random = seededRandom()
    const root = tempDirectory('cellstore-restore')
    const place = await RestorePlace.create(path.join(root, 'place'))
    const output = path.join(root, 'trace')
    expect(await restoreWith(place, root, undefined, output)).toBe('restored, new')
    const all = faultsOf(await callsByName(output))
    const chosen = sampleFaults(all, FAULTS, random)
    const outcomes: Record<string, { count: number; first: string }> = {}
    const failures: string[] = []
    for (const injection of chosen) {
      const fault = `${injection.call} ${injection.when} ${injection.fault}`
      try {
        const outcome = await restoreWith(place, root, injection)
        outcomes[outcome] ??= { count: 0, first: fault }
        outcomes[outcome].count++
      } catch (error) {
        failures.push(`${fault}: ${(error as Error).message}`)
      }
    }
    console.info(
      `${chosen.length} of ${all.length} faults, as answered and as found: ${JSON.stringify(outcomes)}`,
    )
    expect(failures).toEqual([])
  },
)

/** @returns what was answered, and what the cell was afterwards */
async function restoreWith(place: RestorePlace, root: string, injection?: Injection, output = '/dev/null') {
  const copy = path.join(root, 'copy')
  place.copyTo(copy)
  try {
    const trace: TraceOptions = { output, calls: ['%file', '%desc'], paths: place.filesIn(copy), injection }
    const { lines } = await ProgramUnderStrace.run(
      'restore-program.ts',
      [copy, place.cell, place.version],
      trace,
    )
    const answer = lines[0] ?? 'killed'
    const found = await place.look(copy)
    if (answer === 'restored' && found === 'old') throw new Error('It was answered, and is not there')
    return `${answer}, ${found}`
  } finally {
    fs.rmSync(copy, { recursive: true, force: true })
  }
}
