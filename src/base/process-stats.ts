import fs from 'node:fs'
import type { Clock } from './clock.ts'

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

/** Another account may keep the disk busy: what a piece of work waits for it counts no longer than this. */
const DISK_MS_MAX = 5

interface ThreadTimes {
  ranMs: number
  waitedMs: number
}

/**
 * For how long this process's first thread holds up everything else on its event loop. The time in which it waits for a processor
 * is nobody's doing. Where the system does not tell what it has run, all counts as waiting for the disk.
 *
 * @param times of the thread, as in schedstat: what it has run is told a few milliseconds late
 * @returns milliseconds from now on
 */
export function beginHold(clock: Clock, times: () => ThreadTimes = timesOfThisProcess): () => number {
  // In this order, and the other way round at the end: if it loses the processor in between, that does not count.
  const before = times()
  const begunAt = clock.monotonic()
  return () => {
    const elapsedMs = clock.monotonic() - begunAt
    const { ranMs, waitedMs } = times()
    const heldMs = elapsedMs - (waitedMs - before.waitedMs)
    return Math.max(0, Math.min(heldMs, ranMs - before.ranMs + DISK_MS_MAX))
  }
}

/** Left open: to open it takes longer than to read it. */
let ownTimes: number | undefined
const OWN_TIMES = Buffer.alloc(128)

function timesOfThisProcess(): ThreadTimes {
  const [ran = 0, waited = 0] = readOwnTimes()
  return { ranMs: ran / NS_A_MS, waitedMs: waited / NS_A_MS }
}

function readOwnTimes(): number[] {
  try {
    ownTimes ??= fs.openSync(`/proc/${process.pid}/schedstat`, 'r')
    const length = fs.readSync(ownTimes, OWN_TIMES, 0, OWN_TIMES.length, 0)
    return fieldsOf(OWN_TIMES.toString('latin1', 0, length))
  } catch {
    return []
  }
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
