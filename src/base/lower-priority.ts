import fs from 'node:fs'
import os from 'node:os'

/**
 * Lowers the priority of a process, so that it does not slow down the others. On Linux each thread has its own: those that the
 * process has are lowered, and those that it makes get that of the thread that makes them.
 *
 * @param priority as in `os.constants.priority`
 */
export function lowerPriority(pid: number, priority: number): void {
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
