import { bootId, isRunning, pidNamespace, processStartTime } from '../../base/machine/machine.ts'
import type { HolderRecord } from './holder-record.ts'

/** This process and its data directory, as a record names them. */
export type HolderPlace = Pick<
  HolderRecord,
  'host' | 'boot_id' | 'pid_namespace' | 'pid' | 'start_time' | 'directory'
>

/** The stores of this process that hold an epoch, by their `instance`. */
const running = new Set<string>()

export const runningInstances: Pick<Set<string>, 'add' | 'delete'> = running

/** @param directory identifies a directory that this process has locked */
export function placeHere(host: string, directory: string): HolderPlace {
  const { pid } = process
  return {
    host,
    boot_id: bootId() ?? null,
    pid_namespace: pidNamespace() ?? null,
    pid,
    start_time: processStartTime(pid),
    directory,
  }
}

/**
 * Whether the node of a record has ended: `stopped` properly, `dead`, `alive`, or `unknown` from here. Only what this
 * run of this machine knows for sure counts. When in doubt, a start waits for the lease.
 */
export type HolderState = 'stopped' | 'dead' | 'alive' | 'unknown'

/**
 * @param here has its directory locked, so that no other process owns it
 * @param now epoch milliseconds, by the clock that the record's time is from if it is of this machine
 */
export function holderState(record: HolderRecord | undefined, here: HolderPlace, now: number): HolderState {
  if (record === undefined) return 'unknown'
  if (record.closed) return 'stopped'
  if (record.boot_id === null || record.boot_id !== here.boot_id) return 'unknown'
  if (running.has(record.instance)) return 'alive'
  // Containers have processes and names of their own. But a directory has one owner at a time, whichever they are.
  if (record.directory === here.directory) return 'dead'
  if (record.pid_namespace === null || record.pid_namespace !== here.pid_namespace) return 'unknown'
  if (record.pid === here.pid && record.start_time === here.start_time) return 'dead'
  const runs = isRunning(record.pid, record.start_time)
  if (runs === false) return 'dead'
  // A process that has not written for that long may be stopped for good.
  const isFresh = Math.abs(now - Date.parse(record.written_at)) <= record.lease_ms
  return runs === true && isFresh ? 'alive' : 'unknown'
}
