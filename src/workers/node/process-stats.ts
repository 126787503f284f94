import fs from 'node:fs'

/** What Linux says of a process; where the system doesn't say, nothing is held against the process. */

const PAGE_BYTES = 4_096
const NS_A_MS = 1_000_000

/** Bytes of memory that are really there (man 5 proc, statm); 0 if not known. */
export function residentBytes(pid: number): number {
  return PAGE_BYTES * figure(`/proc/${pid}/statm`, 1)
}

/**
 * Milliseconds for which the process's first thread could have run, and others had the processors; 0 if not known. The
 * second figure of schedstat (the kernel's scheduler/sched-stats).
 */
export function waitedMs(pid: number): number {
  return figure(`/proc/${pid}/schedstat`, 1) / NS_A_MS
}

function figure(file: string, at: number): number {
  try {
    return Number(fs.readFileSync(file, 'utf8').split(' ')[at]) || 0
  } catch {
    return 0
  }
}
