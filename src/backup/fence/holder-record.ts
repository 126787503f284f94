import { text } from 'node:stream/consumers'
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
