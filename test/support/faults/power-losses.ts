import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, vi } from 'vitest'
import type { Durability } from '../../../src/engine/cell-settings.ts'
import { countOf } from '../counts.ts'
import { Random } from '../random.ts'
import { tempDirectory } from '../temp-directory.ts'
import { Acknowledgements, type Event } from './acknowledgements.ts'
import { checkAfterPowerLoss } from './after-power-loss.ts'
import { layOut } from './crash-state.ts'
import { DISK_CALLS, RecordedDisk } from './recorded-disk.ts'
import { type Injection, ProgramUnderStrace } from './strace.ts'
import { type Call, descriptorOf, readTrace } from './trace.ts'
import { TracedProcesses } from './traced-processes.ts'

/** Set, a state that fails is kept there. */
const { CELLSTORE_KEEP } = process.env

/** What a program did to its disk. */
export interface Recording {
  root: string
  calls: readonly Call[]
  processes: TracedProcesses
  /** For each call that changed the disk, whether it changed what is called what. */
  changes: boolean[]
}

export interface ReplayOptions {
  durability: Durability
  promised: Durability
  states: number
  /** What a faulty program would do to the disk before the store is opened. */
  meddle?: ((folder: string) => void) | undefined
}

/** Has the power fail at moments of a recording. @throws at the first state that is not as it was promised */
export async function replay(
  { root, calls, processes, changes }: Recording,
  { durability, promised, states, meddle }: ReplayOptions,
  random: Random,
): Promise<Acknowledgements> {
  isAnotherBootEachTime()
  const moments = chooseMoments(changes, states, random)
  const acknowledged = new Acknowledgements(promised)
  const disk = new RecordedDisk(root, processes)
  let change = 0
  let state = 0
  for (const call of calls) {
    if (processes.of(call.thread) === 'main') for (const event of eventsIn(call)) acknowledged.hear(event)
    if (!disk.apply(call)) continue
    for (let i = moments.get(change) ?? 0; i > 0; i--) {
      const seed = random.below(2 ** 31)
      const folder = scratchFolder()
      try {
        layOut(disk.model, folder, new Random(seed))
        meddle?.(folder)
        await checkAfterPowerLoss(folder, acknowledged, durability, new Random(seed))
      } catch (error) {
        keep(disk, seed)
        const place = `State ${state}, at change ${change}, seed ${seed}`
        throw new Error(`${place}: ${(error as Error).message}`, { cause: error })
      } finally {
        fs.rmSync(folder, { recursive: true, force: true })
      }
      state++
    }
    change++
  }
  expect({ change, state }).toEqual({ change: changes.length, state: states })
  return acknowledged
}

/** After a power loss the machine has started anew, which the store asks Linux for. */
function isAnotherBootEachTime(): void {
  const { readFileSync } = fs
  let boots = 0
  const read = (file: string, ...rest: []) =>
    file === '/proc/sys/kernel/random/boot_id' ? `boot ${boots++}` : readFileSync(file, ...rest)
  vi.spyOn(fs, 'readFileSync').mockImplementation(read as typeof readFileSync)
  onTestFinished(() => void vi.restoreAllMocks())
}

/** Runs the program, and lists what it did to the disk. @param fault of the program: see there */
export async function record(
  program: string,
  durability: Durability,
  random: Random,
  fault = 'none',
  injection?: Injection,
): Promise<Recording> {
  const root = path.join(tempDirectory('cellstore-power'), 'recorded')
  fs.mkdirSync(root)
  const trace = `${root}.trace`
  const args = [
    root,
    String(random.below(2 ** 31)),
    String(countOf('CELLSTORE_POWER_LOSS_STEPS')),
    durability,
    fault,
  ]
  const { child } = await ProgramUnderStrace.record(program, args, {
    output: trace,
    calls: DISK_CALLS,
    injection,
  })
  expect(child.exitCode).toBe(0)
  const calls: Call[] = []
  for await (const call of readTrace(trace)) calls.push(call)
  fs.rmSync(trace)
  const processes = new TracedProcesses(calls)
  const disk = new RecordedDisk(root, processes)
  const changes: boolean[] = []
  for (const call of calls) {
    if (disk.apply(call)) changes.push(/open|rename|link|mkdir|rmdir/.test(call.name))
  }
  checkModel(disk, root, random)
  return { root, calls, processes, changes }
}

/** The model is the disk: with every change kept, it holds what the program has left. */
function checkModel(disk: RecordedDisk, root: string, random: Random): void {
  const folder = scratchFolder()
  try {
    for (const name of [...disk.model.names])
      for (const { folder: of } of name.names) disk.model.sync(of, Infinity)
    layOut(disk.model, folder, random, 'all')
    expect(contents(folder)).toEqual(contents(root))
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

function contents(folder: string): Record<string, string> {
  const files = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
  return Object.fromEntries(
    files.map((entry) => {
      const file = path.join(entry.parentPath, entry.name)
      return [path.relative(folder, file), fs.readFileSync(file, 'latin1')]
    }),
  )
}

/** How many states to look at after which change: one half anywhere, and one where names change, which is seldom. */
function chooseMoments(changes: readonly boolean[], states: number, random: Random): Map<number, number> {
  const names = [...changes.keys()].filter((i) => changes[i])
  const moments = new Map<number, number>()
  for (let i = 0; i < states; i++) {
    const at = i % 2 === 0 ? random.below(changes.length) : random.pick(names)
    moments.set(at, (moments.get(at) ?? 0) + 1)
  }
  return moments
}

function eventsIn({ name, args, result }: Call): Event[] {
  // One that failed is made again.
  if (name !== 'write' || descriptorOf(args[0]) !== 1 || result < 0) return []
  const lines = args[1]?.bytes?.toString().split('\n') ?? []
  return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Event)
}

/** In memory where there is such a disk: each state is a hundred files, written and removed. */
function scratchFolder(): string {
  const memory = '/dev/shm'
  return fs.mkdtempSync(path.join(fs.existsSync(memory) ? memory : os.tmpdir(), 'cellstore-state-'))
}

function keep(disk: RecordedDisk, seed: number): void {
  if (CELLSTORE_KEEP === undefined) return
  fs.mkdirSync(CELLSTORE_KEEP, { recursive: true })
  layOut(disk.model, CELLSTORE_KEEP, new Random(seed))
}
