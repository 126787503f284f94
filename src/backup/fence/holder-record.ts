import { text } from 'node:stream/consumers'
import { bootId, isRunning, pidNamespace, processStartTime } from '../../base/machine/machine.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { openSealed, sealJson } from '../versions/identity/sealed-json.ts'

const FORMAT = 1
const RECORD_BYTES_MAX = 4_096

/** What the node of an epoch says of itself. Advisory: the fence alone decides who may write. */
export interface HolderRecord {
  format: typeof FORMAT
  epoch: number
  /** Counts the records of the epoch; the fence itself is record 0. */
  sequence: number
  /** Of one start: random. */
  instance: string
  host: string
  /** Null where the system does not say, as in the next three. */
  boot_id: string | null
  pid_namespace: string | null
  pid: number
  /** Of the process, in clock ticks since boot. */
  start_time: number | null
  /** Tells the data directory from its copies, during one run of the machine. */
  directory: string
  /** ISO 8601, by the node's own clock. */
  written_at: string
  /** The node writes another record before so many milliseconds are over. */
  lease_ms: number
  /** True: the node was stopped properly. */
  closed: boolean
}

export function encodeRecord(record: Omit<HolderRecord, 'format'>): Buffer {
  return sealJson({ format: FORMAT, ...record })
}

/** @returns undefined if the object is gone or damaged */
export async function readRecord(
  store: ObjectStore,
  key: string,
  options: CallOptions,
): Promise<HolderRecord | undefined> {
  const range = { offset: 0, length: RECORD_BYTES_MAX }
  const content = await store.get(key, { ...options, range })
  if (content === undefined) return undefined
  const record = openSealed(await text(content.body))
  return isRecord(record) ? record : undefined
}

/** For messages: where the node of a record runs, and when it was heard of last. */
export function describeHolder(record: HolderRecord | undefined): string {
  if (record === undefined) return 'a node whose record cannot be read'
  const { host, pid, written_at } = record
  return `process ${pid} on ${host}, last heard of at ${written_at}`
}

function isRecord(value: unknown): value is HolderRecord {
  const { format, epoch, sequence, instance, host, pid, directory, written_at, lease_ms, closed } = (value ??
    {}) as Partial<Record<keyof HolderRecord, unknown>>
  const texts = [instance, host, directory, written_at]
  const numbers = [epoch, sequence, pid, lease_ms]
  return (
    format === FORMAT &&
    typeof closed === 'boolean' &&
    texts.every((each) => typeof each === 'string') &&
    numbers.every((each) => Number.isSafeInteger(each))
  )
}

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
type HolderState = 'stopped' | 'dead' | 'alive' | 'unknown'

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
