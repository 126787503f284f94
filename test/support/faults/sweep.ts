import type { Random } from '../random.ts'
import type { Injection } from './strace.ts'
import { readTrace } from './trace.ts'

/** A close that fails has closed all the same, and a mapping is memory. Each of the others can fail, or be the last. */
const SPARED = new Set(['close', 'mmap'])
/** Those that can lack room. */
const CHANGING = /write|truncate|open|mkdir|rename|fsync/

/** How often which call comes, in the thread that makes it most often: strace counts by thread. */
export async function callsByName(trace: string): Promise<Map<string, number>> {
  const byThread = new Map<string, number>()
  const calls = new Map<string, number>()
  for await (const { name, thread } of readTrace(trace)) {
    if (SPARED.has(name)) continue
    const count = (byThread.get(`${thread} ${name}`) ?? 0) + 1
    byThread.set(`${thread} ${name}`, count)
    calls.set(name, Math.max(calls.get(name) ?? 0, count))
  }
  return calls
}

/** Every call failing once, and being the last before a kill. */
export function faultsOf(calls: ReadonlyMap<string, number>): Injection[] {
  return [...calls].flatMap(([call, count]) => {
    const faults = CHANGING.test(call) ? ['EIO', 'ENOSPC', 'SIGKILL'] : ['EIO', 'SIGKILL']
    return Array.from({ length: count }, (_, i) =>
      faults.map((fault) => ({ call, fault, when: i + 1 })),
    ).flat()
  })
}

/**
 * Some of them, each kind of call as likely as any other: of some there are hundreds, of others one, and that one is the
 * rename.
 *
 * @param count Infinity for all
 */
export function sampleFaults(all: readonly Injection[], count: number, random: Random): readonly Injection[] {
  if (count >= all.length) return all
  const kinds = [...new Set(all.map(({ call }) => call))]
  return Array.from({ length: count }, () => {
    const kind = random.pick(kinds)
    return random.pick(all.filter(({ call }) => call === kind))
  })
}
