import fs from 'node:fs'
import os from 'node:os'

/**
 * Gives a process a lower priority, so that it slows down the others less. On Linux each thread has its own: those that the
 * process has are lowered, and those that it makes get that of the thread that makes them.
 *
 * @param priority as `os.setPriority` takes it, above 0; the lowest if it is left out
 */
export function lowerPriority(pid: number, priority: number = os.constants.priority.PRIORITY_LOW): void {
  for (const thread of threadsOf(pid)) {
    try {
      os.setPriority(thread, priority)
    } catch {
      // It has just ended.
    }
  }
}

/** The process itself where the system does not tell. */
function threadsOf(pid: number): number[] {
  try {
    return fs.readdirSync(`/proc/${pid}/task`).map(Number)
  } catch {
    return [pid]
  }
}
