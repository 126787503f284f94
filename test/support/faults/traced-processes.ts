import type { Call } from './trace.ts'

/** Calls that make threads and processes. */
export const PROCESS_CALLS = ['clone', 'clone3', 'fork', 'vfork'] as const

export function isProcessCall({ name }: Call): boolean {
  return (PROCESS_CALLS as readonly string[]).includes(name)
}

/** Which thread of a trace is of which process: descriptors are a process's. */
export class TracedProcesses {
  /** Of each thread that was made in the trace, its maker, and whether it is a process of its own. */
  readonly #made: ReadonlyMap<string, { by: string; isProcess: boolean }>

  /** @param calls all of them: a thread's first calls can come before the end of the call that made it */
  constructor(calls: readonly Call[]) {
    const made = new Map<string, { by: string; isProcess: boolean }>()
    for (const call of calls) {
      if (!isProcessCall(call)) continue
      const isProcess = !call.args.some(({ text }) => text.includes('CLONE_FILES'))
      made.set(String(call.result), { by: call.thread, isProcess })
    }
    this.#made = made
  }

  /** The thread that began the thread's process; `main` for that which was traced first. */
  of(thread: string): string {
    const made = this.#made.get(thread)
    if (made === undefined) return 'main'
    return made.isProcess ? thread : this.of(made.by)
  }
}
