import { open } from 'node:fs/promises'
import type { Clock } from '../../base/clock.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import { CellError } from '../../errors.ts'
import type { MemberSource } from '../archive/archive-writer.ts'
import type { CellIdentity } from '../archive/cell-identity.ts'
import { FORMAT, type Manifest, walMember } from '../archive/manifest.ts'
import { readAll, Spool } from '../archive/spool.ts'
import type { ChangeTracker } from '../changes/change-tracker.ts'
import type { BackupChain } from '../changes/progress-table.ts'
import type { Segment } from '../changes/segments.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import type { BackupKind, BackupOptions, BackupResult } from '../versions/backup-types.ts'
import { DatabaseSource } from './database-source.ts'

export interface BackupTarget {
  store: ObjectStore
  spoolDirectory: string
  clock: Clock
  /** Told what was stored. */
  stored(manifest: Manifest, sizeBytes: number): void
}

/** What a backup is called, and what it may go on from. */
export interface BackupOrder {
  kind: BackupKind
  version: string
  /** Epoch milliseconds of the version. */
  time: number
  /** Versions that a chain may have. */
  versionsMax: number
}

/** One backup of one open cell. The caller lets no other backup or restore of it run meanwhile. */
export class CellBackup {
  readonly #target: BackupTarget
  readonly #identity: CellIdentity
  readonly #tracker: ChangeTracker
  readonly #options: BackupOptions

  constructor(target: BackupTarget, identity: CellIdentity, tracker: ChangeTracker, options: BackupOptions) {
    this.#target = target
    this.#identity = identity
    this.#tracker = tracker
    this.#options = options
  }

  /**
   * Cuts here and stores: the whole database, or what changed since the chain's last version.
   *
   * @param letGo called once the cell's own files are no longer needed: a slow upload pins nothing
   * @throws `busy` if something keeps the log from being checkpointed, or it outgrows its bound meanwhile
   */
  async run(order: BackupOrder, database: CellDatabase, letGo: () => void): Promise<BackupResult> {
    const tracker = this.#tracker
    const cutAt = this.#target.clock.now()
    tracker.cut(database)
    try {
      // Keeps the log as a segment, moves it into the database, and begins a new one if it can.
      database.checkpoint('TRUNCATE')
      const pending = order.kind === 'incremental' ? tracker.pending(order.versionsMax) : undefined
      if (pending === undefined) {
        const result = await this.#base(order, database, letGo)
        tracker.baseStored(order.version, order.kind, cutAt)
        return result
      }
      const { chain, segments } = pending
      const manifest = this.#manifest(order, database, contentOf(chain, segments))
      tracker.seal(segments)
      letGo()
      const result = await this.#store(manifest, segments.map(segmentSource))
      tracker.incrementalStored(chain, order.version, segments, cutAt)
      return result
    } catch (error) {
      tracker.backupFailed()
      throw error
    }
  }

  /** The file is read while writers go on in the log: no checkpoint touches it meanwhile. */
  async #base(order: BackupOrder, database: CellDatabase, letGo: () => void): Promise<BackupResult> {
    const { frames, checkpointed } = database.walState()
    if (frames !== checkpointed) throw heldUp()
    this.#tracker.beginBase()
    const hold = database.holdCheckpoints()
    try {
      const source = new DatabaseSource(database, hold)
      const { name, size } = source
      const manifest = this.#manifest(order, database, { database: { name, size }, chain: [], wals: [] })
      return await this.#store(manifest, [source], () => {
        source.check()
        const { checkpointed: now } = database.walState()
        if (!this.#tracker.baseUntouched || (now !== 0 && now !== checkpointed)) throw touched()
        hold.release()
        letGo()
      })
    } finally {
      hold.release()
    }
  }

  /** @param afterRead called once the members have been read, before the upload; may refuse */
  async #store(
    manifest: Manifest,
    members: readonly MemberSource[],
    afterRead: () => void = () => {},
  ): Promise<BackupResult> {
    const { store, spoolDirectory, clock, stored } = this.#target
    const { signal, onProgress } = this.#options
    const started = clock.monotonic()
    const { writeArchive } = await import('../archive/archive-writer.ts')
    const spool = new Spool(spoolDirectory)
    try {
      await writeArchive(spool, manifest, members, {
        signal,
        onProgress: (bytes, total) => onProgress?.({ phase: 'read', bytes, total }),
      })
      afterRead()
      const { body, sha256 } = await spool.finish()
      this.#tracker.claimVersion(manifest.version)
      await store.put(manifest.version, body, {
        signal,
        onProgress: (bytes) => onProgress?.({ phase: 'upload', bytes, total: body.size }),
      })
      stored(manifest, body.size)
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

  #manifest({ kind, version, time }: BackupOrder, database: CellDatabase, content: Content): Manifest {
    return {
      format: FORMAT,
      ...this.#identity,
      version,
      kind,
      base_version: content.chain[0] ?? null,
      created_at: new Date(time).toISOString(),
      sqlite_version: database.sqliteVersion(),
      ...content,
    }
  }
}

type Content = Pick<Manifest, 'database' | 'chain' | 'wals'>

function contentOf(chain: BackupChain, segments: readonly Segment[]): Content {
  const wals = segments.map(({ size, frames, pageSize, salts }, i) => ({
    name: walMember(i),
    size,
    frames,
    page_size: pageSize,
    salts,
  }))
  return { database: null, chain: [...chain.versions], wals }
}

function segmentSource({ path, size }: Segment, index: number): MemberSource {
  return {
    name: walMember(index),
    size,
    // Opened for each piece: there may be more segments than descriptors.
    read: async (bytes, offset) => {
      await using handle = await open(path, 'r')
      await readAll(handle, bytes, offset)
    },
  }
}

function heldUp(): CellError {
  return new CellError(
    'busy',
    'Another program reads the cell, so that its log cannot be checkpointed. Try again.',
  )
}

function touched(): CellError {
  return new CellError(
    'busy',
    'Another program wrote to the cell while it was read, so that the copy is worthless. Try again.',
  )
}
