import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import type { Random } from '../engine/fuzz.ts'
import { seededRandom } from '../fixtures/seed.ts'
import { tempDirectory } from '../fixtures/temp-directory.ts'
import { RestorePlace } from './support/restore-place.ts'
import { type Injection, noStrace, ProgramUnderStrace, type TraceOptions } from './support/strace.ts'
import { readTrace } from './support/trace.ts'

/** How many faults are tried, of all that there are; `CELLSTORE_RESTORE_FAULTS=all` takes a quarter of an hour. */
const { CELLSTORE_RESTORE_FAULTS = '24' } = process.env
const FAULTS_MAX =
  CELLSTORE_RESTORE_FAULTS === 'all' ? Number.POSITIVE_INFINITY : Number(CELLSTORE_RESTORE_FAULTS)

vi.setConfig({ testTimeout: 7_200_000, hookTimeout: 120_000 })

/** A close that fails has closed all the same, and a mapping is memory. Each of the others can fail, or be the last. */
const SPARED = new Set(['close', 'mmap'])
const CHANGING = /write|truncate|open|mkdir|rename|fsync/

test.runIf(noStrace !== undefined)(`faults in a restore were not tested: ${noStrace}`, () => {})

test.skipIf(noStrace !== undefined)(
  `a restore that fails or is killed at any of its system calls leaves the old cell or the new one, whole (invariant 10; ${CELLSTORE_RESTORE_FAULTS} faults)`,
  async () => {
    const random = seededRandom('faults in a restore')
    const root = tempDirectory('cellstore-restore')
    const place = await RestorePlace.create(path.join(root, 'place'))
    const all = faultsIn(await callsOfRestore(place, root))
    const chosen = FAULTS_MAX >= all.length ? all : sample(all, FAULTS_MAX, random)
    const outcomes: Record<string, number> = {}
    const failures: string[] = []
    for (const injection of chosen) {
      try {
        const outcome = await restoreWith(place, root, injection)
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
      } catch (error) {
        failures.push(`${injection.call} ${injection.when} ${injection.fault}: ${(error as Error).message}`)
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

/** How often which call comes, in the thread that makes it most often. */
async function callsOfRestore(place: RestorePlace, root: string): Promise<Map<string, number>> {
  const output = path.join(root, 'trace')
  expect(await restoreWith(place, root, undefined, output)).toBe('restored, new')
  const byThread = new Map<string, number>()
  const calls = new Map<string, number>()
  for await (const { name, thread } of readTrace(output)) {
    if (SPARED.has(name)) continue
    const count = (byThread.get(`${thread} ${name}`) ?? 0) + 1
    byThread.set(`${thread} ${name}`, count)
    calls.set(name, Math.max(calls.get(name) ?? 0, count))
  }
  return calls
}

function faultsIn(calls: Map<string, number>): Injection[] {
  return [...calls].flatMap(([call, count]) => {
    const faults = CHANGING.test(call) ? ['EIO', 'ENOSPC', 'SIGKILL'] : ['EIO', 'SIGKILL']
    return Array.from({ length: count }, (_, i) =>
      faults.map((fault) => ({ call, fault, when: i + 1 })),
    ).flat()
  })
}

/** Each kind of call as likely as any other: of some there are hundreds, of others one, and that one is the rename. */
function sample(all: readonly Injection[], count: number, random: Random): Injection[] {
  const kinds = [...new Set(all.map(({ call }) => call))]
  return Array.from({ length: count }, (_, i) => {
    const kind = kinds[i % kinds.length]
    return random.pick(all.filter(({ call }) => call === kind))
  })
}
