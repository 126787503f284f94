import { spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import { ended } from '../support/child.ts'
import { countOf } from '../support/counts.ts'
import { Acknowledgements, type Event } from '../support/faults/acknowledgements.ts'
import { checkAfterPowerLoss } from '../support/faults/after-power-loss.ts'
import { RestorePlace } from '../support/faults/restore-place.ts'
import { type Injection, noStrace, ProgramUnderStrace, type TraceOptions } from '../support/faults/strace.ts'
import { callsByName, faultsOf, sampleFaults } from '../support/faults/sweep.ts'
import type { Random } from '../support/random.ts'
import { seededRandom } from '../support/seed.ts'
import { filesBelow, tempDirectory } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

const FAULTS = countOf('CELLSTORE_START_FAULTS')

vi.setConfig({ testTimeout: 7_200_000 })

test.runIf(noStrace !== undefined)(`faults in a start were not tested: ${noStrace}`, () => {})

/** A crash, and what has to be there after the next start that works. */
interface Crash {
  root: string
  check(root: string, random: Random): Promise<void>
}

test.skipIf(noStrace !== undefined).each([
  ['under writes', crashUnderWrites],
  ['in the switch of a restore', crashInSwitch],
] as const)(
  `a start after a crash %s that fails or is killed at any of its system calls costs nothing (invariants 1, 10, 14; ${FAULTS} faults)`,
  async (_what, makeCrash) => {
    const random = seededRandom()
    const root = tempDirectory('cellstore-start')
    const crash = await makeCrash(path.join(root, 'crash'), random)
    const output = path.join(root, 'trace')
    expect(await startWith(crash, root, random, undefined, output)).toBe('started')
    const all = faultsOf(await callsByName(output))
    const chosen = sampleFaults(all, FAULTS, random)
    const outcomes: Record<string, number> = {}
    const failures: string[] = []
    for (const injection of chosen) {
      try {
        const outcome = await startWith(crash, root, random, injection)
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
      } catch (error) {
        failures.push(`${injection.call} ${injection.when} ${injection.fault}: ${(error as Error).message}`)
      }
    }
    console.info(`${chosen.length} of ${all.length} faults, as the start ended: ${JSON.stringify(outcomes)}`)
    expect(failures).toEqual([])
  },
)

/** Starts a copy of what the crash has left with a fault, and then without one. @returns how the first start ended */
async function startWith(
  crash: Crash,
  root: string,
  random: Random,
  injection?: Injection,
  output = '/dev/null',
): Promise<string> {
  const copy = path.join(root, 'copy')
  fs.cpSync(crash.root, copy, { recursive: true })
  try {
    const trace: TraceOptions = { output, calls: ['%file', '%desc'], paths: pathsIn(copy), injection }
    const { lines } = await ProgramUnderStrace.run('start-program.ts', [copy], trace)
    await crash.check(copy, random)
    return lines[0] ?? 'killed'
  } finally {
    fs.rmSync(copy, { recursive: true, force: true })
  }
}

/** What is there, and what a start makes. */
function pathsIn(copy: string): string[] {
  const found = filesBelow(copy).map((file) => path.join(copy, file))
  const databases = found.filter((file) => file.endsWith('.db'))
  return [
    ...new Set([
      ...found,
      ...found.map((file) => path.dirname(file)),
      ...databases.flatMap((file) => [`${file}-wal`, `${file}-shm`, `${file}-journal`]),
      ...databases.map((file) => path.join(path.dirname(file), 'restore-intent')),
      ...databases.map((file) => path.join(path.dirname(file), 'incoming.db')),
    ]),
  ]
}

async function crashUnderWrites(root: string, random: Random): Promise<Crash> {
  fs.mkdirSync(root)
  const file = path.join(import.meta.dirname, '../support/faults/programs', 'ledger-program.ts')
  const child = spawn(process.execPath, [
    '--no-warnings',
    file,
    root,
    String(random.below(2 ** 31)),
    '1000000',
  ])
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  child.stdin.write('go\n')
  const enough = 10_000 + random.below(20_000)
  await until(() => output.length > enough || child.exitCode !== null, 'it has written enough')
  child.kill('SIGKILL')
  await ended(child)
  const acknowledged = new Acknowledgements()
  const lines = output.split('\n').slice(1, -1)
  for (const line of lines) acknowledged.hear(JSON.parse(line) as Event)
  return { root, check: (copy, chance) => checkAfterPowerLoss(copy, acknowledged, 'full', chance) }
}

/**
 * The intent is on disk, and the database is about to be renamed. A restore that ends earlier, for whatever reason, would
 * leave the old cell, and nothing to finish.
 */
async function crashInSwitch(root: string): Promise<Crash> {
  const place = await RestorePlace.create(`${root}-place`)
  place.copyTo(root)
  const injection = { call: 'rename', fault: 'EIO', when: 1 }
  const trace = { output: '/dev/null', calls: ['rename'], paths: place.filesIn(root), injection }
  const { lines } = await ProgramUnderStrace.run(
    'restore-program.ts',
    [root, place.cell, place.version],
    trace,
  )
  expect(lines).toEqual(['internal'])
  const { restoreIntent, restoreTarget } = place.pathsIn(root)
  expect([restoreIntent, restoreTarget].filter((file) => fs.existsSync(file))).toEqual([
    restoreIntent,
    restoreTarget,
  ])
  return {
    root,
    check: async (copy) => {
      expect(await place.look(copy)).toBe('new')
    },
  }
}
