import fs from 'node:fs'
import os from 'node:os'

/**
 * Gives a process the lowest priority, so that it does not slow down the others. On Linux each thread has its own: those that the
 * process has are lowered, and those that it makes get that of the thread that makes them.
 */
export function lowerPriority(pid: number): void {
  for (const thread of threadsOf(pid)) {
    try {
      os.setPriority(thread, os.constants.priority.PRIORITY_LOW)
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
