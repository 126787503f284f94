import { setTimeout as sleep } from 'node:timers/promises'
import { cpuMs } from '../http-process.ts'
import { median } from '../side-by-side.ts'
import { isRunning, resume, stall } from './processes.ts'
import type { Measured, Outcome } from './results.ts'

/** Who takes part in a row. */
export interface Contender {
  name: string
  version: string
  /** Its process, if that is not this one. */
  pid?: number | undefined
  /** What it has said last of what is wrong with it; empty if nothing. */
  complaint?(): string
}

/** What one turn gave. */
export interface Turn {
  /** In the unit of its row. */
  value: number
  /** Operations, to divide the processor time by. */
  count?: number
  /** Milliseconds. */
  p50?: number
  p99?: number
}

export interface Rounds<C extends Contender> {
  rounds: number
  /** Not measured: V8 compiles what runs often, caches fill. */
  warmUp?: (contender: C) => Promise<unknown>
  turn: (contender: C) => Promise<Turn>
  /** A turn that takes longer makes its contender absent. */
  turnMsMax?: number
}

const TURN_MS_MAX = 300_000

/**
 * Each contender has its turn in each round, so that what disturbs the machine disturbs all alike. Only the one whose turn
 * it is has the processors: the others are stopped, whether they would rest or not. One that fails is absent from then on.
 */
export async function takeTurns<C extends Contender>(
  contenders: readonly C[],
  { rounds, warmUp, turn, turnMsMax = TURN_MS_MAX }: Rounds<C>,
): Promise<Record<string, Outcome>> {
  const turns = new Map(contenders.map((each) => [each, [] as (Turn & { processorUs?: number })[]]))
  const absent = new Map<C, string>()
  const alone = async <T>(contender: C, run: () => Promise<T>): Promise<T | undefined> => {
    if (absent.has(contender)) return undefined
    if (contender.pid !== undefined) resume(contender.pid)
    try {
      return await bounded(run(), turnMsMax)
    } catch (error) {
      const { message } = error as Error
      const ended =
        contender.pid !== undefined && !isRunning(contender.pid) ? 'its process ended' : 'it failed'
      const said = contender.complaint?.() ?? ''
      absent.set(contender, [ended, said, message].filter(Boolean).join(': '))
      return undefined
    } finally {
      // It may have been started again.
      if (contender.pid !== undefined) stall(contender.pid)
    }
  }

  for (const { pid } of contenders) if (pid !== undefined) stall(pid)
  try {
    if (warmUp !== undefined) for (const each of contenders) await alone(each, () => warmUp(each))
    for (let round = 0; round < rounds; round++)
      for (const each of contenders) {
        const taken = await alone(each, () => withProcessorTime(each, () => turn(each)))
        if (taken !== undefined) turns.get(each)?.push(taken)
      }
  } finally {
    for (const { pid } of contenders) if (pid !== undefined) resume(pid)
  }
  const outcome = (each: C): Outcome => {
    const reason = absent.get(each)
    if (reason !== undefined) return { absent: reason }
    // A turn in which nothing was answered has no figure.
    const taken = (turns.get(each) ?? []).filter(({ value }) => !Number.isNaN(value))
    return taken.length > 0 ? summed(each.version, taken) : { absent: 'it answered nothing in its turns' }
  }
  return Object.fromEntries(contenders.map((each) => [each.name, outcome(each)]))
}

async function withProcessorTime(
  { pid }: Contender,
  turn: () => Promise<Turn>,
): Promise<Turn & { processorUs?: number }> {
  const before = pid === undefined ? Number.NaN : cpuMs(pid)
  const taken = await turn()
  const spent = pid === undefined ? Number.NaN : cpuMs(pid) - before
  return Number.isNaN(spent) || taken.count === undefined
    ? taken
    : { ...taken, processorUs: (spent * 1_000) / taken.count }
}

async function bounded<T>(run: Promise<T>, ms: number): Promise<T> {
  const timeout = new AbortController()
  const late = sleep(ms, undefined, { signal: timeout.signal }).then(
    () => {
      throw new Error(`a turn took longer than ${ms / 1_000} s`)
    },
    () => undefined as never,
  )
  try {
    return await Promise.race([run, late])
  } finally {
    timeout.abort()
  }
}

function summed(version: string, turns: readonly (Turn & { processorUs?: number })[]): Measured {
  const values = turns.map(({ value }) => value)
  const measured: Measured = {
    version,
    median: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
  }
  for (const name of ['p50', 'p99', 'processorUs'] as const) {
    const all = turns
      .map((each) => each[name])
      .filter((each): each is number => each !== undefined && !Number.isNaN(each))
    if (all.length > 0) measured[name] = median(all)
  }
  return measured
}
