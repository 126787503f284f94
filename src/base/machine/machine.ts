import fs from 'node:fs'

/** Identifies one run of the machine, also from within a container; undefined where the system does not say. */
export function bootId(): string | undefined {
  try {
    return fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return undefined
  }
}

/** A process id means something only within its namespace; undefined where the system does not say. */
export function pidNamespace(): string | undefined {
  try {
    return fs.readlinkSync('/proc/self/ns/pid')
  } catch {
    return undefined
  }
}

/**
 * Whether a process of this machine still runs.
 *
 * @param startTime of the process, in clock ticks since boot: tells a reused pid
 * @returns undefined if the system does not say
 */
export function isRunning(pid: number, startTime: number | null): boolean | undefined {
  const stat = readStat(pid)
  if (stat !== undefined) {
    // Killed, and not yet waited for by its parent.
    if (stat.state === 'Z' || stat.state === 'X') return false
    return startTime === null ? undefined : stat.startTime === startTime
  }
  try {
    process.kill(pid, 0)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH' ? false : undefined
  }
}

/** @returns null where the system does not say */
export function processStartTime(pid: number): number | null {
  return readStat(pid)?.startTime ?? null
}

/** Fields 3 and 22 of /proc/<pid>/stat; the second field may hold spaces and parentheses (man 5 proc). */
function readStat(pid: number): { state: string | undefined; startTime: number } | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0], startTime: Number(fields[19]) }
  } catch {
    return undefined
  }
}
