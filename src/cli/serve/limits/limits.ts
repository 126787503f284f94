import type { Limits, ResultLimits } from '../../../base/limits.ts'
import type { Quotas } from '../../../catalog/account-quotas.ts'
import type { ConnectionLimits } from '../../../http/connection-limits.ts'
import type { MemoryLimits } from '../../../http/memory-budgets.ts'
import type { RateLimit } from '../../../http/rate-limiter.ts'
import type { StreamLimits } from '../../../http/stream-limits.ts'
import type { WatchSettings } from '../../../store/watch/watch-settings.ts'
import type { QueueBounds } from '../../../workers/node/operation-queue.ts'
import type { WorkerLimits } from '../../../workers/node/worker-limits.ts'
import { memory, quotas, rate, streams } from './account-limits.ts'
import { type LimitRow, memberOf, type Rows } from './limit-row.ts'
import { backups, connections, queue, store, watch, workers } from './node-limits.ts'
import { cell, http, result } from './request-limits.ts'

export interface LimitGroup {
  title: string
  /** Where the library has these settings, for docs/limits.md. */
  place: string
  rows: Readonly<Record<string, LimitRow>>
}

function group<T>(title: string, place: string, rows: Rows<T>) {
  return { title, place, rows } satisfies LimitGroup
}

/** Every limit of a node. Flags, variables and docs/limits.md are made from this alone. */
export const LIMITS = {
  limits: group<Limits>('A cell and its operations', '`limits` of a store', cell),
  result: group<ResultLimits>('An answer', '`limits.result` of a handler', result),
  http: group('A request', '`limits` of a handler', http),
  quotas: group<Quotas>('An account', '`quotas` of a store, where none has a default', quotas),
  rate: group<RateLimit>('Requests of an account', '`rate` of a handler', rate),
  memory: group<MemoryLimits>('Memory for requests', '`limits.memory` of a handler', memory),
  streams: group<StreamLimits>('Streams of changes', '`limits.streams` of a handler', streams),
  watch: group<WatchSettings>('Commits that are kept for them', '`watch` of a store', watch),
  queue: group<QueueBounds>('Operations that wait for a worker; each worker has a queue', '', queue),
  workers: group<WorkerLimits>('Workers', '', workers),
  connections: group<ConnectionLimits>('Connections', '', connections),
  store: group('Open cells', 'the options of a store', store),
  backups: group('Backups and restores', '`backups` of a store', backups),
}

type Groups = typeof LIMITS
/** The values of all flags, by group and setting. A setting without a value is missing. */
export type NodeLimits = { [G in keyof Groups]: { [S in keyof Groups[G]['rows']]?: number } }

export const LIMIT_ROWS: readonly LimitRow[] = Object.values(LIMITS).flatMap(({ rows }) =>
  Object.values<LimitRow>(rows),
)

/** What commander made of the flags and variables. */
export function limitsFrom(flags: Readonly<Record<string, unknown>>): NodeLimits {
  const valuesOf = (rows: Readonly<Record<string, LimitRow>>) =>
    Object.fromEntries(
      Object.entries(rows)
        .map(([setting, row]) => [setting, flags[memberOf(row)]])
        .filter(([, value]) => value !== undefined),
    )
  return Object.fromEntries(
    Object.entries(LIMITS).map(([name, { rows }]) => [name, valuesOf(rows)]),
  ) as NodeLimits
}
