import fs from 'node:fs'

/** Figures about a process from Linux's /proc. Other systems have none: 0 then. */

const PAGE_BYTES = 4_096
const NS_A_MS = 1_000_000

/** Resident memory in bytes (man 5 proc, statm); 0 if unknown. */
export function residentBytes(pid: number): number {
  return PAGE_BYTES * readField(`/proc/${pid}/statm`, 1)
}

/**
 * Milliseconds that the process's first thread was ready to run but had no processor; 0 if unknown. It is the second
 * field of schedstat (see the kernel's scheduler/sched-stats).
 */
export function waitedMs(pid: number): number {
  return readField(`/proc/${pid}/schedstat`, 1) / NS_A_MS
}

/** Milliseconds that the process's first thread ran on a processor; 0 if unknown. */
export function processorMs(pid: number): number {
  return readField(`/proc/${pid}/schedstat`, 0) / NS_A_MS
}

function readField(file: string, at: number): number {
  return readFields(file)[at] ?? 0
}

function readFields(file: string): number[] {
  try {
    return fieldsOf(fs.readFileSync(file, 'utf8'))
  } catch {
    return []
  }
}

function fieldsOf(line: string): number[] {
  return line.split(' ').map((field) => Number(field) || 0)
}
