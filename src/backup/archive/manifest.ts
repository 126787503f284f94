import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { Durability } from '../../engine/cell-settings.ts'
import { corrupt } from './backup-errors.ts'

/** docs/format.md describes every field. A reader refuses a format it does not know. */
export const FORMAT = 1

/** The cause of a `backup_corrupt` that is none: a newer cellstore made the backup. */
export const NEWER_FORMAT = new Error('The format of the backup is newer.')

export const MANIFEST_MEMBER = 'manifest.json'
export const DATABASE_MEMBER = 'cell.db'
export const CHECKSUMS_MEMBER = 'checksums.json'

export const WAL_MEMBER = /^wal-\d{6}$/

/** Write-ahead logs apply in the order of their numbers. */
export function walMember(index: number): string {
  return `wal-${String(index + 1).padStart(6, '0')}`
}

export interface Manifest {
  format: typeof FORMAT
  store_id: string
  cell_id: string
  account_id: string | null
  name: string | null
  cell_created_at: string
  durability: Durability | null
  version: string
  kind: 'snapshot' | 'incremental'
  /** The version whose database image this one rests on; null if it holds one itself. */
  base_version: string | null
  /** Every version that has to be applied before this one, oldest first, beginning with the base. */
  chain: string[]
  created_at: string
  /** Who asked for it. Manifests from before this field lack it, and count as `schedule`. */
  origin?: 'schedule' | 'owner' | 'tenant' | undefined
  sqlite_version: string
  /**
   * It was made only because the cell was restored to this version: nothing has changed since. Or it is this version itself: the
   * first one of a cell that was made empty. No restore takes either for the latest.
   */
  repeats?: string | undefined
  /** Where it is in what is shipped of the cell. Without it, nothing that is shipped follows this version. */
  log?: ManifestLog | undefined
  database: { name: typeof DATABASE_MEMBER; size: number } | null
  wals: WalEntry[]
}

/** Everything up to the end of the log `sequence` of the history is in the version; logs of higher numbers follow. */
export interface ManifestLog {
  history: string
  sequence: number
  /** Frames of that log. Manifests from before this field lack it. */
  frames?: number | undefined
  /** When it was cut, in epoch milliseconds on the cell's line of time, which never steps back. */
  at: number
  /** The last log object that was stored before the cut; null if there was none. */
  after: string | null
  /** Where this log lies: `nodes/<id>/`. Absent: as that of a single node. */
  prefix?: string | undefined
}

interface WalEntry {
  name: string
  size: number
  /** Frames up to the last commit: restore proves that SQLite took every one of them. */
  frames: number
  page_size: number
  /** The two salts of the log's header, in hexadecimal. */
  salts: string
}

/** What is kept in memory of a version: not its many logs. */
export type ManifestHead = Omit<Manifest, 'database' | 'wals'>

export interface Checksums {
  /** SHA-256 in hexadecimal. */
  members: { name: string; size: number; sha256: string }[]
  /** What SQLite's check of the database found before these bytes of it were stored. Absent if it was not checked, or holds none. */
  quick_check?: 'ok' | undefined
}

export function encodeJsonMember(value: object, isCompact = false): Buffer {
  return Buffer.from(`${JSON.stringify(value, null, isCompact ? 0 : 2)}\n`)
}

/** Whose backup it has to be. */
export interface Expected {
  storeId: string
  cellId: string
}

/** @throws `backup_corrupt` for the right bytes in the wrong place */
export function checkIdentity(manifest: ManifestHead, version: string, { storeId, cellId }: Expected): void {
  if (manifest.version !== version) throw corrupt(MANIFEST_MEMBER, 'it is that of another version')
  if (manifest.cell_id !== cellId) throw corrupt(MANIFEST_MEMBER, 'it is that of another cell')
  if (manifest.store_id !== storeId) throw corrupt(MANIFEST_MEMBER, 'it is that of another store')
}

/** What a manifest says of the cell itself. */
export type CellIdentity = Pick<
  Manifest,
  'store_id' | 'cell_id' | 'account_id' | 'name' | 'cell_created_at' | 'durability'
>

export function identityOfCell(storeId: string, record: CellRecord): CellIdentity {
  return {
    store_id: storeId,
    cell_id: record.id,
    account_id: record.accountId,
    name: record.name,
    cell_created_at: new Date(record.createdAt).toISOString(),
    durability: record.durability,
  }
}

/** The catalog is a cell of its own, under the store's id. @param createdAt epoch milliseconds */
export function identityOfCatalog(storeId: string, createdAt: number): CellIdentity {
  return {
    store_id: storeId,
    cell_id: storeId,
    account_id: null,
    name: 'catalog',
    cell_created_at: new Date(createdAt).toISOString(),
    durability: null,
  }
}
