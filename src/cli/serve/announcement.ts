import packageJson from '../../../package.json' with { type: 'json' }
import { timeOf } from '../../service/json/time.ts'
import type { StoreCore } from '../../store/store-core.ts'
import { formatDuration } from '../terminal/output.ts'
import type { FirstKeyIssued } from './first-start.ts'

/** What a node prints on standard output, once, before it answers any request. */
export interface Announcement {
  address: string
  /** Whether the console is served. */
  console: boolean
  store: Pick<StoreCore, 'id' | 'registry' | 'retention' | 'settings'>
  dataDir: string
  objectStore: string
  firstKey: FirstKeyIssued | undefined
}

/** @param json one document, for scripts */
export function announce(announcement: Announcement, json: boolean): string {
  return json ? `${JSON.stringify(documentOf(announcement))}\n` : forPeople(announcement)
}

function documentOf({ store, dataDir, objectStore, firstKey, ...announcement }: Announcement) {
  const place = {
    version: packageJson.version,
    address: announcement.address,
    console: consoleOf(announcement) ?? null,
    store_id: store.id,
    data_dir: dataDir,
    object_store: objectStore,
    backups: backupsOf(store),
  }
  if (firstKey === undefined) return { ...place, first_key: null }
  const { key, chosen } = firstKey
  const { id, name, hint, createdAt } = key
  return {
    ...place,
    first_key: { id, key: chosen ? null : key.key, name, hint, created_at: timeOf(createdAt) },
  }
}

function consoleOf({ address, console }: Pick<Announcement, 'address' | 'console'>): string | undefined {
  return console ? `${address}/console` : undefined
}

function backupsOf({ registry, retention, settings }: Announcement['store']) {
  const { snapshotEveryMs = null, incrementalEveryMs = null } = settings.backups
  const summary = retention?.summary()
  return {
    snapshot_every_ms: snapshotEveryMs,
    incremental_every_ms: incrementalEveryMs,
    max_lag_ms: settings.backups.maxLagMs ?? null,
    keep: summary?.keep ?? null,
    keep_tenant: summary?.keepTenant ?? null,
    cells: registry.countAll(),
    stored: summary?.stored ?? 0,
    oldest_stored_at: timeOf(summary?.oldestStoredAt ?? null),
    changed: summary?.changed ?? 0,
  }
}

/** Says what is backed up and when, and how the cells stand. */
function backupLines(store: Announcement['store']): string {
  const { settings } = store
  const {
    snapshot_every_ms,
    incremental_every_ms,
    max_lag_ms,
    keep,
    cells,
    stored,
    oldest_stored_at,
    changed,
  } = backupsOf(store)
  const every = (ms: number | null) => (ms === null ? 'never' : `every ${formatDuration(ms)}`)
  const schedule = `backups of what changed ${every(incremental_every_ms)}, snapshots ${every(snapshot_every_ms)}; keeps ${keep}
${max_lag_ms === null ? 'what cells commit is in their backups only' : `what cells commit is in the object store after ${formatDuration(max_lag_ms)}`}`
  if (cells === 0) return schedule
  const when = settings.backups.recoverInBackground ? 'in the background' : 'at their first use'
  const lost = stored + changed < cells ? `; the others come back from their backups ${when}` : ''
  const since = oldest_stored_at === null ? '' : `, each since ${oldest_stored_at}`
  return `${schedule}\n${cells} ${cells === 1 ? 'cell' : 'cells'}: ${stored} stored${since}; ${changed} changed since or never stored${lost}`
}

function forPeople({ store, dataDir, objectStore, firstKey, ...announcement }: Announcement): string {
  const { address } = announcement
  const console = consoleOf(announcement)
  const place = `cellstore ${packageJson.version} serves on ${address}${console === undefined ? '' : `\nthe console is at ${console}`}\ndata in ${dataDir}, backups in ${objectStore}\n${backupLines(store)}\n`
  if (firstKey === undefined) return place
  const { key, chosen } = firstKey
  const shown = chosen
    ? `The first API key is the one in CELLSTORE_ROOT_KEY: ${key.hint}…`
    : `The first API key, which is shown only now:\n\n    ${key.key}`
  const inCurl = chosen ? '$CELLSTORE_ROOT_KEY' : key.key
  return `${place}\n${shown}\n\nTry it:\n\n    curl -X POST ${address}/v1/databases -H "x-api-key: ${inCurl}"\n\n`
}
