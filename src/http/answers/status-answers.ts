import * as z from 'zod'
import { count, time, uuid } from '../../service/json/answer-fields.ts'
import { noted } from '../../service/json/schema-notes.ts'

export const healthAnswer = z.object({ status: z.literal('ok') })

export const readyAnswer = z.object({
  status: z.literal('ready'),
  damaged_backups: noted(count, {
    description: 'Cells, and the catalog, with backups that proved damaged and no newer proven one.',
  }),
})

export type HealthDocument = z.infer<typeof healthAnswer>
export type ReadyDocument = z.infer<typeof readyAnswer>

/** How a node is. The encoder has its type. */

const named = { id: uuid, name: z.string().nullable(), account_id: uuid.nullable() }
const ms = z.number().min(0)
const jobs = z.object({ waiting: count, running: count })

const cells = z.object({
  count,
  open: count,
  bytes: count,
  largest: z.array(z.object({ ...named, size_bytes: count })),
  busiest: z.array(z.object({ ...named, operations: count })),
  quarantined_count: count,
  quarantined: z.array(z.object({ ...named, reason: z.string(), since: time })),
})

const shipping = z.object({
  backed_up_to: time.nullable(),
  lag_ms: ms,
  waiting_bytes: count,
  without_history: count,
  failing_since: noted(time.nullable(), { description: 'Null while it works.' }),
  last_object: z.string().nullable(),
  objects: count,
  bytes: count,
})

const backups = z.object({
  object_store: z.string(),
  object_store_lost_at: noted(time.nullable(), { description: 'Null while it answers.' }),
  lag_ms: ms,
  oldest_change_at: time.nullable(),
  changed: count,
  newest_stored_at: time.nullable(),
  damaged: count,
  stored: z.object({ snapshot: count, incremental: count }),
  failed: count,
  restored: count,
  recovered: count,
  restores_failed: count,
  queue: noted(z.record(z.string(), jobs), { description: 'Jobs, by their kind.' }),
  shipping: noted(shipping.nullable(), { description: 'Null if nothing is shipped.' }),
})

const recovery = z.object({
  cells: count,
  recovered: count,
  failed: count,
  bytes: count,
  started_at: time,
  ended_at: noted(time.nullable(), { description: 'Null while it runs.' }),
  eta_ms: noted(ms.nullable(), { description: 'Null while nobody knows.' }),
  failures: z.array(z.object({ ...named, code: z.string() })),
})

const workers = z.object({
  running: count,
  ended: noted(z.record(z.string(), count), { description: 'Those that ended early, by the reason.' }),
  operations_waiting: count,
  bytes_waiting: count,
})

const failure = z.object({
  at: time,
  level: z.enum(['warn', 'error']),
  message: z.string(),
  code: z.string().nullable(),
  why: noted(z.string().nullable(), { description: 'The message of its cause.' }),
  count: noted(count, { description: 'How often it happened in a row.' }),
  cell_id: z.string().nullable(),
  account_id: z.string().nullable(),
  request_id: z.string().nullable(),
})

const requests = z.object({
  count: noted(count, { description: 'Answered since the start, those of the owner’s commands too.' }),
  failed: noted(count, { description: 'Of these, with a status of 500 or more.' }),
  routes: noted(
    z.array(z.object({ method: z.string(), route: z.string(), count, failed: count, mean_ms: ms })),
    { description: 'The ten that took the most time in all.' },
  ),
})

const slowStatement = z.object({
  at: time,
  ms,
  route: z.string(),
  status: z.int(),
  cell_id: uuid.nullable(),
  account_id: uuid.nullable(),
  request_id: z.string(),
})

export const statusAnswer = noted(
  z.object({
    version: z.string(),
    pid: z.int(),
    store_id: z.string(),
    data_dir: z.string(),
    started_at: time,
    uptime_ms: ms,
    statements: count,
    commits: count,
    requests,
    slow_statements: noted(z.array(slowStatement), {
      description: 'The newest requests with SQL that took 500 ms or more, the wait for a worker included.',
    }),
    cells,
    backups: noted(backups.nullable(), { description: 'Null without an object store.' }),
    recovery: noted(recovery.nullable(), {
      description: 'The restore of cells that had no local data at the start; null if there were none.',
    }),
    workers: noted(workers.nullable(), { description: 'Null if the node has none.' }),
    failures: noted(z.array(failure), { description: 'The newest ones.' }),
  }),
  { id: 'NodeStatus' },
)

/** What `cellstore status` and `GET /v1/status` show. */
export type StatusDocument = z.infer<typeof statusAnswer>
