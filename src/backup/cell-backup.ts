import fs from 'node:fs'
import { open } from 'node:fs/promises'
import type { CellDatabase } from '../engine/cell-database.ts'
import { cellNotFound } from '../engine/cell-registry.ts'
import type { Clock } from '../engine/clock.ts'
import { CellError } from '../errors.ts'
import { type MemberSource, writeArchive } from './archive-writer.ts'
import type { ChangeTracker } from './change-tracker.ts'
import { DATABASE_MEMBER, FORMAT, type Manifest, walMember } from './manifest.ts'
import type { ObjectStore } from './object-store.ts'
import type { BackupChain } from './progress-table.ts'
import type { Segment } from './segments.ts'
import { readAll, Spool } from './spool.ts'

export type BackupKind = 'snapshot' | 'incremental'

export interface BackupResult {
  version: string
  kind: BackupKind
  /** The version whose database image this one rests on; null if it holds one itself. */
  baseVersion: string | null
  /** Bytes of the stored object. */
  sizeBytes: number
  /** Of the stored object, in hexadecimal. */
  sha256: string
  /** Epoch milliseconds. */
  createdAt: number
  durationMs: number
}

export interface BackupProgressEvent {
  phase: 'read' | 'upload' | 'download'
  bytes: number
  total: number
}

export interface BackupOptions {
  signal?: AbortSignal | undefined
  onProgress?: ((event: BackupProgressEvent) => void) | undefined
}

/** What a manifest says of the cell itself. */
export type CellIdentity = Pick<
  Manifest,
  'store_id' | 'cell_id' | 'account_id' | 'name' | 'cell_created_at' | 'durability'
>

export interface BackupTarget {
  store: ObjectStore
  spoolDirectory: string
  clock: Clock
}

/** One backup of one open cell. The caller keeps the cell pinned, and lets no other backup of it run meanwhile. */
export class CellBackup {
  readonly #target: BackupTarget
  readonly #identity: CellIdentity
  readonly #database: CellDatabase
  readonly #tracker: ChangeTracker
  readonly #options: BackupOptions

  constructor(
    target: BackupTarget,
    identity: CellIdentity,
    database: CellDatabase,
    tracker: ChangeTracker,
    options: BackupOptions,
  ) {
    this.#target = target
    this.#identity = identity
    this.#database = database
    this.#tracker = tracker
    this.#options = options
  }

  /**
   * Stores the whole database. It is read while writers go on in the log: no checkpoint touches the file meanwhile.
   *
   * @param at epoch milliseconds of the version
   */
  async base(version: string, kind: BackupKind, at: number): Promise<BackupResult> {
    const database = this.#database
    database.checkpoint('TRUNCATE')
    const { frames, checkpointed } = database.walState()
    if (frames !== checkpointed) {
      throw new CellError(
        'busy',
        'Another program reads the cell, so that its log cannot be checkpointed. Try again.',
      )
    }
    this.#tracker.beginBase(database)
    const hold = database.holdCheckpoints()
    try {
      const file = database.readDescriptor()
      const size = fs.fstatSync(file).size
      const read = async (offset: number, length: number) => {
        const bytes = await readFrom(file, offset, length)
        // Deleted meanwhile: the descriptor is closed, and its number may be another file's by now.
        if (!database.open) throw cellNotFound()
        return bytes
      }
      const member = { name: DATABASE_MEMBER, size, read }
      const manifest = this.#manifest(version, kind, at, {
        database: { name: DATABASE_MEMBER, size },
        chain: [],
        wals: [],
      })
      const result = await this.#store(manifest, [member], () => {
        hold.release()
        if (hold.broken) throw outgrown(database)
      })
      this.#tracker.baseStored(version, kind, at)
      return result
    } catch (error) {
      this.#tracker.backupFailed()
      throw error
    } finally {
      hold.release()
    }
  }

  /** Stores what changed since the chain's last version: the logs that were kept, and the one that is being written. */
  async incremental(version: string, chain: BackupChain, at: number): Promise<BackupResult> {
    this.#tracker.cut(this.#database)
    try {
      // Keeps the log as a segment, and begins a new one.
      this.#database.checkpoint('TRUNCATE')
      if (this.#tracker.progress.chain !== chain)
        throw new CellError('disk_full', 'The log could not be kept for the backup.')
      const segments = this.#tracker.segments.list().filter(({ sequence }) => sequence > chain.through)
      const wals = segments.map(({ size, frames, pageSize, salts }, i) => ({
        name: walMember(i),
        size,
        frames,
        page_size: pageSize,
        salts,
      }))
      const manifest = this.#manifest(version, 'incremental', at, {
        database: null,
        chain: [...chain.versions],
        wals,
      })
      const result = await this.#storeSegments(manifest, segments)
      const bytes = segments.reduce((sum, { size }) => sum + size, 0)
      this.#tracker.incrementalStored(chain, version, segments.at(-1)?.sequence ?? chain.through, bytes, at)
      return result
    } catch (error) {
      this.#tracker.backupFailed()
      throw error
    }
  }

  async #storeSegments(manifest: Manifest, segments: readonly Segment[]): Promise<BackupResult> {
    const handles = await Promise.all(segments.map(({ path }) => open(path, 'r')))
    try {
      const members = segments.map(({ size }, i): MemberSource => {
        const handle = handles[i] as (typeof handles)[number]
        const read = async (offset: number, length: number) => {
          const bytes = Buffer.allocUnsafe(length)
          await readAll(handle, bytes, offset)
          return bytes
        }
        return { name: walMember(i), size, read }
      })
      return await this.#store(manifest, members, () => {})
    } finally {
      await Promise.all(handles.map((handle) => handle.close()))
    }
  }

  /** @param afterRead called once the members have been read, before the upload; may refuse */
  async #store(
    manifest: Manifest,
    members: readonly MemberSource[],
    afterRead: () => void,
  ): Promise<BackupResult> {
    const { store, spoolDirectory, clock } = this.#target
    const { signal, onProgress } = this.#options
    const started = clock.monotonic()
    const spool = new Spool(spoolDirectory)
    try {
      await writeArchive(spool, manifest, members, {
        signal,
        onProgress: (bytes, total) => onProgress?.({ phase: 'read', bytes, total }),
      })
      afterRead()
      const { body, sha256 } = await spool.finish()
      await store.put(manifest.version, body, {
        signal,
        onProgress: (bytes) => onProgress?.({ phase: 'upload', bytes, total: body.size }),
      })
      return {
        version: manifest.version,
        kind: manifest.kind,
        baseVersion: manifest.base_version,
        sizeBytes: body.size,
        sha256,
        createdAt: Date.parse(manifest.created_at),
        durationMs: clock.monotonic() - started,
      }
    } finally {
      await spool.dispose()
    }
  }

  #manifest(
    version: string,
    kind: BackupKind,
    at: number,
    content: Pick<Manifest, 'database' | 'chain' | 'wals'>,
  ): Manifest {
    return {
      format: FORMAT,
      ...this.#identity,
      version,
      kind,
      base_version: content.chain[0] ?? null,
      created_at: new Date(at).toISOString(),
      sqlite_version: this.#database.sqliteVersion(),
      ...content,
    }
  }
}

function outgrown({ settings }: CellDatabase): CellError {
  const { walBytesMax } = settings.limits
  return new CellError(
    'busy',
    `While the snapshot was read, more than ${walBytesMax} bytes were written to the cell; it was given up. Try again, or raise walBytesMax.`,
    { limit: walBytesMax },
  )
}

function readFrom(fd: number, offset: number, length: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const bytes = Buffer.allocUnsafe(length)
    let at = 0
    const next = () => {
      fs.read(fd, bytes, at, length - at, offset + at, (error, read) => {
        if (error) return reject(error)
        if (read === 0) return reject(new Error('The database file ended early.'))
        at += read
        return at < length ? next() : resolve(bytes)
      })
    }
    next()
  })
}
