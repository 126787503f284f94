import { open } from 'node:fs/promises'
import type { Clock } from '../../base/clock.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import { CellError } from '../../errors.ts'
import type { MemberSource } from '../archive/archive-writer.ts'
import type { CellIdentity } from '../archive/cell-identity.ts'
import { FORMAT, type Manifest, walMember } from '../archive/manifest.ts'
import { readAll, Spool } from '../archive/spool.ts'
import type { BackupChain } from '../changes/backup-chain.ts'
import type { ChangeTracker } from '../changes/change-tracker.ts'
import type { Segment } from '../changes/segments.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import type { BackupKind, BackupOptions, BackupOrigin, BackupResult } from '../versions/backup-types.ts'
import type { VersionIndex } from '../versions/version-index.ts'
import { DatabaseSource } from './database-source.ts'

export interface BackupTarget {
  objectStore: ObjectStore
  /** Told of each backup that is stored. */
  index: VersionIndex
  spoolDirectory: string
  clock: Clock
}

/** The name of a backup, and what it may continue. */
export interface BackupOrder {
  kind: BackupKind
  origin: BackupOrigin
  version: string
  /** Epoch milliseconds of the version. */
  time: number
  /** The most versions of a chain. */
  versionsMax: number
}

/** One backup of one open cell. The caller runs no other backup or restore of the cell meanwhile. */
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
   * Backs up the cell as it is now: the whole database, or the changes since the chain's last version.
   *
   * @param unpin called once the cell's own files are no longer needed, so that a slow upload does not keep it open
   * @throws `busy` if another program blocks the checkpoint, or if the WAL exceeds its limit meanwhile
   */
  async run(order: BackupOrder, database: CellDatabase, unpin: () => void): Promise<BackupResult> {
    const tracker = this.#tracker
    const cutAt = this.#target.clock.now()
    tracker.cut(database)
    try {
      // Keeps the WAL as a segment, moves it into the database, and truncates it if possible.
      database.checkpoints.run('TRUNCATE')
      const pending = order.kind === 'incremental' ? tracker.pending(order.versionsMax) : undefined
      if (pending === undefined) {
        const result = await this.#base(order, database, unpin)
        tracker.baseStored(order.version, order.kind, cutAt)
        return result
      }
      const { chain, segments } = pending
      const manifest = this.#manifest(order, database, contentOf(chain, segments))
      tracker.seal(segments)
      unpin()
      const result = await this.#store(manifest, segments.map(segmentSource))
      tracker.incrementalStored(chain, order.version, segments, cutAt)
      return result
    } catch (error) {
      tracker.backupFailed()
      throw error
    }
  }

  /** Reads the database file while writers continue in the WAL: the hold forbids checkpoints meanwhile. */
  async #base(order: BackupOrder, database: CellDatabase, unpin: () => void): Promise<BackupResult> {
    const { frames, checkpointed } = database.checkpoints.state()
    if (frames !== checkpointed) throw checkpointBlocked()
    this.#tracker.beginBase()
    const hold = database.checkpoints.hold()
    try {
      const source = new DatabaseSource(database, hold)
      const { name, size } = source
      const manifest = this.#manifest(order, database, { database: { name, size }, chain: [], wals: [] })
      return await this.#store(manifest, [source], () => {
        source.check()
        const { checkpointed: now } = database.checkpoints.state()
        if (!this.#tracker.baseUntouched || (now !== 0 && now !== checkpointed)) throw writtenMeanwhile()
        hold.release()
        unpin()
      })
    } finally {
      hold.release()
    }
  }

  /** @param afterRead called after all members were read, before the upload; may throw */
  async #store(
    manifest: Manifest,
    members: readonly MemberSource[],
    afterRead: () => void = () => {},
  ): Promise<BackupResult> {
    const { objectStore, index, spoolDirectory, clock } = this.#target
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
      await objectStore.put(manifest.version, body, {
        signal,
        onProgress: (bytes) => onProgress?.({ phase: 'upload', bytes, total: body.size }),
      })
      index.stored(manifest, body.size)
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
    { kind, origin, version, time }: BackupOrder,
    database: CellDatabase,
    content: Content,
  ): Manifest {
    return {
      format: FORMAT,
      ...this.#identity,
      version,
      kind,
      base_version: content.chain[0] ?? null,
      created_at: new Date(time).toISOString(),
      origin,
      sqlite_version: database.prepare('SELECT sqlite_version()').pluck().get() as string,
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
    // Opened for each piece: the process may have fewer descriptors than segments.
    read: async (bytes, offset) => {
      await using handle = await open(path, 'r')
      await readAll(handle, bytes, offset)
    },
  }
}

function checkpointBlocked(): CellError {
  return new CellError('busy', 'Another program reads the cell and blocks its checkpoint. Try again.')
}

function writtenMeanwhile(): CellError {
  return new CellError('busy', 'Another program wrote to the cell during its backup. Try again.')
}
