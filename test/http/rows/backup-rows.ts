import fs from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import type { CellErrorCode } from '../../../src/errors.ts'
import { TIMES_OF_TWO_VERSIONS } from '../../support/backup/restorable-times.ts'
import type { Ask, Bench } from '../../support/http/bench.ts'
import { persistent } from './kv-asks.ts'
import { badPages, COUNT, type Row, SHA256, TIME, UNKNOWN_ID, UUID, VERSION } from './row.ts'

const cell = '/v1/databases/{cell}'
const backup: Ask = { method: 'POST', path: `${cell}/backup` }
const incr: Ask = { method: 'POST', path: `${cell}/backup/incr` }
const list: Ask = { method: 'GET', path: `${cell}/backups` }
const restore = (body: unknown = {}): Ask => ({ method: 'POST', path: `${cell}/restore`, body })

const snapshot = {
  version: VERSION,
  kind: 'snapshot',
  size_bytes: COUNT,
  sha256: SHA256,
  created_at: TIME,
  duration_ms: COUNT,
}
const incremental = { ...snapshot, kind: 'incremental', base_version: VERSION }
const restored = {
  restored: true,
  version: VERSION,
  kind: 'snapshot',
  size_bytes: COUNT,
  duration_ms: COUNT,
  timestamp: TIME,
  replaced_at: TIME,
}
const plan = {
  restored: false,
  version: VERSION,
  kind: 'snapshot',
  timestamp: TIME,
  objects: [{ key: VERSION, size_bytes: COUNT }],
  size_bytes: COUNT,
  log_size_bytes: 0,
}
const LATER = '2126-11-21T02:02:13.123Z'

const BAD_VERSIONS = [
  'latest',
  '',
  'backup-20261121T020213.123Z',
  `snapshots/${UNKNOWN_ID}/backup-2026-11-21T02:02:13.123Z`,
  `snapshots/${UNKNOWN_ID}/backup-20261321T020213Z`,
  `snapshots/../backup-20261121T020213Z`,
  `snapshots/${UNKNOWN_ID}/backup-20261121T020213.123Z/`,
]

function damageCell({ data, cellDirectory }: Bench): void {
  data.isDamaged = true
  fs.writeFileSync(path.join(cellDirectory, 'cell.db'), 'this is no database '.repeat(1_000))
}

/** Changes one byte in the middle of the cell's only backup. */
function damageBackup({ backupDirectory }: Bench): void {
  const name = fs.readdirSync(backupDirectory).sort().at(-1) ?? ''
  const file = path.join(backupDirectory, name)
  fs.chmodSync(file, 0o600)
  const bytes = fs.readFileSync(file)
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 0xff
  fs.writeFileSync(file, bytes)
}

/** In a store that keeps one cell open, the use of another closes it: only then may its files go. */
function loseLocalData(bench: Bench): void {
  bench.store.openCell(bench.store.createCell().id).kv.get('k')
  fs.rmSync(bench.cellDirectory, { recursive: true })
}

function failing(code: CellErrorCode): (bench: Bench) => void {
  return (bench) => {
    bench.objectStore.failure = code
  }
}

export const BACKUP_ROWS: Row[] = [
  { title: 'a snapshot', ask: backup, status: 200, body: snapshot },
  { title: 'a snapshot, of {}', ask: { ...backup, body: {} }, status: 200, body: snapshot },
  {
    title: 'a first incremental, which makes its own base',
    ask: incr,
    status: 200,
    body: { ...incremental, base_version: null },
  },
  { title: 'an incremental', before: [backup], ask: incr, status: 200, body: incremental },
  { title: 'no backups', ask: list, status: 200, body: { backups: [], next_cursor: null, restorable: [] } },
  {
    title: 'the backups, newest first',
    before: [backup, { method: 'PUT', path: `${cell}/kv/k`, body: { value: 'v' } }, incr],
    ask: list,
    status: 200,
    body: {
      backups: [
        { version: VERSION, kind: 'incremental', size_bytes: COUNT, created_at: TIME, base_version: VERSION },
        { version: VERSION, kind: 'snapshot', size_bytes: COUNT, created_at: TIME, base_version: null },
      ],
      next_cursor: null,
      restorable: TIMES_OF_TWO_VERSIONS,
    },
  },
  ...badPages(`${cell}/backups`),
  { title: 'a restore of the latest', before: [backup], ask: restore(), status: 200, body: restored },
  {
    title: 'a restore of an empty body',
    before: [backup],
    ask: { method: 'POST', path: `${cell}/restore` },
    status: 200,
    body: restored,
  },
  ...[LATER, '2126-11-21T02:02:13Z', '2126-11-21T02:02:13.123456789+05:30', '2126-11-20T22:02:13-04:00'].map(
    (timestamp): Row => ({
      title: `a restore to the time ${timestamp}`,
      before: [backup],
      ask: restore({ timestamp }),
      status: 200,
      body: restored,
    }),
  ),
  ...['yesterday', '', '2026-11-21', '2026-11-21T02:02:13', '2026-02-30T02:02:13Z', '-10m'].map(
    (timestamp): Row => ({
      title: `a restore to the time ${JSON.stringify(timestamp)}`,
      before: [backup],
      ask: restore({ timestamp }),
      status: 400,
      problem: { code: 'invalid_request', field: 'timestamp' },
    }),
  ),
  {
    title: 'a restore to a time that is a number',
    before: [backup],
    ask: restore({ timestamp: 1_795_000_000_000 }),
    status: 400,
    problem: { code: 'invalid_request', field: 'timestamp' },
  },
  {
    title: 'a restore to a version and a time',
    before: [backup],
    ask: restore({ version: 'snapshots/{cell}/backup-20200101T000000.000Z', timestamp: LATER }),
    status: 400,
    problem: { code: 'invalid_request', field: 'timestamp' },
  },
  {
    title: 'a restore to a time before all backups',
    before: [backup],
    ask: restore({ timestamp: '2001-01-01T00:00:00Z' }),
    status: 404,
    problem: { code: 'backup_not_found' },
  },
  ...['versoin', 'at', 'timestmap', 'dryRun'].map(
    (name): Row => ({
      title: `a restore with the unknown field ${name}`,
      before: [backup],
      ask: restore({ [name]: 'x' }),
      status: 400,
      problem: { code: 'invalid_request', field: name },
    }),
  ),
  {
    title: 'what a restore would do',
    before: [backup],
    ask: restore({ dry_run: true }),
    status: 200,
    body: plan,
  },
  {
    title: 'what a restore would do, of an incremental',
    before: [backup, { method: 'PUT', path: `${cell}/kv/k`, body: { value: 'v' } }, incr],
    ask: { ...restore({ dry_run: true, timestamp: LATER }), headers: { prefer: 'respond-async' } },
    status: 200,
    body: {
      ...plan,
      kind: 'incremental',
      objects: [
        { key: VERSION, size_bytes: COUNT },
        { key: VERSION, size_bytes: COUNT },
      ],
    },
  },
  {
    title: 'what a restore would do, with no backup',
    ask: restore({ dry_run: true }),
    status: 404,
    problem: { code: 'backup_not_found' },
  },
  {
    title: 'a restore that is no dry run',
    before: [backup],
    ask: restore({ dry_run: false }),
    status: 200,
    body: restored,
  },
  {
    title: 'a restore that may be a dry run',
    ask: restore({ dry_run: 'yes' }),
    status: 400,
    problem: { code: 'invalid_request', field: 'dry_run' },
  },
  {
    title: 'a restore whose client does not wait',
    before: [backup],
    ask: { ...restore(), headers: { prefer: 'respond-async' } },
    status: 202,
    body: {
      id: UUID,
      state: 'running',
      bytes_done: COUNT,
      bytes_total: null,
      eta_ms: null,
      started_at: TIME,
      ended_at: null,
      result: null,
      problem: null,
    },
    headers: { 'preference-applied': 'respond-async' },
  },
  {
    title: 'the status of a restore that there is not',
    ask: { method: 'GET', path: `${cell}/restores/${UNKNOWN_ID}` },
    status: 404,
    problem: { code: 'restore_not_found' },
  },
  {
    title: 'a restore with no backup, which makes one',
    ask: restore(),
    status: 200,
    body: { ...restored, kind: 'incremental' },
  },
  {
    title: 'a restore of a version that is not there',
    before: [backup],
    ask: restore({ version: 'snapshots/{cell}/backup-20200101T000000.000Z' }),
    status: 404,
    problem: { code: 'backup_not_found' },
  },
  {
    title: 'a restore of another cell’s version',
    before: [backup],
    ask: restore({ version: 'snapshots/{stranger}/backup-20261121T020213.123Z' }),
    status: 404,
    problem: { code: 'backup_not_found' },
  },
  ...BAD_VERSIONS.map(
    (version): Row => ({
      title: `a restore of the version ${JSON.stringify(version)}`,
      before: [backup],
      ask: restore({ version }),
      status: 400,
      problem: { code: 'invalid_version', field: 'version' },
    }),
  ),
  {
    title: 'a restore of a version that is no string',
    ask: restore({ version: 5 }),
    status: 400,
    problem: { code: 'invalid_request', field: 'version' },
  },
  {
    title: 'a restore of a deleted cell',
    before: [backup, { method: 'DELETE', path: cell }],
    ask: restore(),
    status: 200,
    body: { ...restored, replaced_at: null },
  },
  {
    title: 'the backups of a deleted cell',
    before: [backup, { method: 'DELETE', path: cell }],
    ask: list,
    status: 200,
    body: {
      backups: [
        { version: VERSION, kind: 'snapshot', size_bytes: COUNT, created_at: TIME, base_version: null },
      ],
      next_cursor: null,
      restorable: [{ from: TIME, to: TIME }],
    },
  },
  {
    title: 'a restore of a damaged backup',
    before: async (bench) => {
      await bench.send(backup)
      damageBackup(bench)
    },
    ask: restore(),
    status: 422,
    problem: { code: 'backup_corrupt', member: expect.any(String), version: expect.any(String) },
  },
  {
    title: 'the first use of a cell whose data is lost, which restores it',
    bench: { store: { openCellsMax: 1 } },
    before: async (bench) => {
      await bench.send({ method: 'PUT', path: `${cell}/kv/k`, body: { value: 'v' } })
      await bench.send(backup)
      loseLocalData(bench)
    },
    ask: { method: 'GET', path: `${cell}/kv/k` },
    status: 200,
    body: { key: 'k', value: 'v', ...persistent },
  },
  {
    title: 'a change in a cell whose data is lost',
    bench: { store: { openCellsMax: 1 } },
    before: async (bench) => {
      await bench.send({ method: 'PUT', path: `${cell}/kv/k`, body: { value: '41' } })
      await bench.send(backup)
      loseLocalData(bench)
    },
    ask: { method: 'POST', path: `${cell}/kv/ops/incr`, body: { key: 'k' } },
    status: 200,
    body: { key: 'k', value: 42, ...persistent },
  },
  {
    title: 'the size of a cell whose data is lost',
    bench: { store: { openCellsMax: 1 } },
    before: async (bench) => {
      await bench.send(backup)
      loseLocalData(bench)
    },
    ask: { method: 'GET', path: cell },
    status: 200,
    body: {
      id: UUID,
      name: null,
      created_at: TIME,
      status: 'ok',
      size_bytes: expect.toSatisfy((bytes: number) => bytes > 0),
      backed_up_to: TIME,
      last_stored_at: TIME,
      last_proven: null,
      last_backup: { version: VERSION, kind: 'snapshot', created_at: TIME },
    },
  },
  {
    title: 'a cell whose data takes longer to come back than the request may wait',
    bench: { store: { openCellsMax: 1 }, handler: { requestDeadlineMs: 20 } },
    before: async (bench) => {
      await bench.send(backup)
      loseLocalData(bench)
      bench.objectStore.hold()
    },
    ask: { method: 'GET', path: `${cell}/kv/k` },
    status: 503,
    problem: { code: 'cell_restoring' },
    headers: { 'retry-after': '2' },
  },
  {
    title: 'a cell whose data is lost, and that has no backup',
    bench: {},
    before: loseLocalData,
    ask: { method: 'GET', path: `${cell}/kv/k` },
    status: 409,
    problem: { code: 'no_backup' },
  },
  {
    title: 'a second restore of the cell',
    bench: {},
    before: async (bench) => {
      await bench.send(backup)
      bench.objectStore.hold()
      bench.send(restore()).catch(() => {})
      await new Promise((resolve) => setTimeout(resolve, 50))
    },
    ask: restore(),
    status: 409,
    problem: { code: 'restore_in_progress' },
  },
  ...[backup, incr, list, restore()].flatMap((ask): Row[] => [
    {
      title: `${ask.path.slice(cell.length)} while the object store is down`,
      bench: {},
      before: failing('object_store_unavailable'),
      ask,
      status: 503,
      problem: { code: 'object_store_unavailable' },
      headers: { 'retry-after': '5' },
    },
    {
      title: `${ask.path.slice(cell.length)} while the object store answers wrongly`,
      bench: {},
      before: failing('object_store_error'),
      ask,
      status: 502,
      problem: { code: 'object_store_error' },
    },
    {
      title: `${ask.path.slice(cell.length)} without an object store`,
      bench: { store: { objectStore: undefined } },
      ask,
      status: 501,
      problem: { code: 'object_store_not_configured' },
    },
  ]),
  {
    title: 'a cell of a store without an object store',
    bench: { store: { objectStore: undefined } },
    ask: { method: 'GET', path: cell },
    status: 200,
    body: {
      id: UUID,
      name: null,
      created_at: TIME,
      status: 'ok',
      size_bytes: COUNT,
      backed_up_to: null,
      last_stored_at: null,
      last_proven: null,
      last_backup: null,
    },
  },
  {
    title: 'readiness while the object store is down',
    bench: {},
    before: failing('object_store_unavailable'),
    ask: { method: 'GET', path: '/readyz', key: null },
    status: 200,
    body: { status: 'ready', damaged_backups: 0 },
  },
  {
    title: 'a cell whose file is damaged',
    bench: {},
    before: damageCell,
    ask: { method: 'GET', path: `${cell}/kv/k` },
    status: 503,
    problem: { code: 'cell_quarantined', sqlite_code: 'SQLITE_NOTADB', reason: 'damaged' },
    headers: { 'retry-after': '60' },
  },
  {
    title: 'a list with a cell whose file is damaged',
    bench: {},
    before: async (bench) => {
      damageCell(bench)
      await bench.send({ method: 'GET', path: `${cell}/kv/k` })
    },
    ask: { method: 'GET', path: '/v1/databases' },
    status: 200,
    body: { databases: [expect.objectContaining({ status: 'quarantined' })], next_cursor: null },
  },
  {
    title: 'what is told of a cell whose file is damaged',
    bench: {},
    before: async (bench) => {
      damageCell(bench)
      await bench.send({ method: 'GET', path: `${cell}/kv/k` })
    },
    ask: { method: 'GET', path: cell },
    status: 200,
    body: {
      id: UUID,
      name: null,
      created_at: TIME,
      status: 'quarantined',
      quarantine: { reason: 'damaged', since: TIME },
      size_bytes: COUNT,
      backed_up_to: null,
      last_stored_at: null,
      last_proven: null,
      last_backup: null,
    },
  },
]
