import { randomUUID } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { Clock } from '../../base/clock.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { MemberSource } from '../archive/archive-writer.ts'
import { type CellIdentity, DATABASE_MEMBER, FORMAT, type Manifest, walMember } from '../archive/manifest.ts'
import { readAll, Spool } from '../archive/spool.ts'
import type { BaseCut, BaseStart, CellCuts, IncrementalCut } from '../changes/log/cell-cuts.ts'
import type { Segment } from '../changes/log/segments.ts'
import { bufferBody, type CallOptions, type ObjectStore } from '../object-store/object-store.ts'
import type { BackupKind, BackupOptions, BackupOrigin, BackupResult } from '../versions/backup-types.ts'
import { probeKey } from '../versions/object-keys.ts'
import type { VersionIndex } from '../versions/version-index.ts'
import { BaseCopy } from './base-copy.ts'
import type { DatabaseReader } from './database-reader.ts'

export interface BackupTarget {
  objectStore: ObjectStore
  /** Told of each backup that is stored. */
  index: VersionIndex
  /** Told how each PUT ended. */
  probe: PutProbe
  spoolDirectory: string
  /** The last log object that is stored; null if there is none. */
  lastLogObject(): string | null
  /** Where the log lies; empty for a single node. */
  logPrefix: string
  clock: Clock
  /**
   * Runs SQLite's check of every page.
   *
   * @returns false if it takes too long
   * @throws `backup_corrupt`; the signal's reason
   */
  proveDatabase(
    file: string,
    size: number,
    whose: { account: string; signal: AbortSignal; base: string },
  ): Promise<boolean>
}

/** What to make, and under which name. */
interface BackupOrder {
  kind: BackupKind
  origin: BackupOrigin
  /** Bytes that a base reads. */
  sizeBytes: number
  /** The most versions of a chain. */
  versionsMax: number
  /** Nobody waits for what a new cell has committed: its database as it was made begins its history. */
  beginsHistory: boolean
  /** Called right before the cut: the stamp of a version is that of its state. */
  nextVersion(): string
}

/** The process that has the cell open, and how to read the cell's files from here. */
export interface CellUnderBackup {
  cuts: CellCuts
  openReader(start: BaseStart): DatabaseReader | Promise<DatabaseReader>
}

export interface CellBackupOptions extends Pick<BackupOptions, 'signal' | 'onProgress'> {
  /** Waits until so many bytes may be read. */
  willMove?: ((bytes: number) => Promise<void>) | undefined
}

const ORIGIN = { kind: 'incremental', origin: 'schedule' } as const

/** One backup of one cell. The caller runs no other backup or restore of the cell meanwhile. */
export class CellBackup {
  readonly #target: BackupTarget
  readonly #identity: CellIdentity
  readonly #cell: CellUnderBackup
  readonly #options: CellBackupOptions
  readonly #started: number
  #isOrigin = false

  constructor(
    target: BackupTarget,
    identity: CellIdentity,
    cell: CellUnderBackup,
    options: CellBackupOptions,
  ) {
    this.#target = target
    this.#identity = identity
    this.#cell = cell
    this.#options = options
    this.#started = target.clock.monotonic()
  }

  /**
   * Backs up the cell: the whole database, or the changes since the chain's last version.
   *
   * @throws `busy` if another program wrote the cell meanwhile, or if more was written than the cell is large;
   * `backup_corrupt` if the database is damaged
   */
  async run(order: BackupOrder): Promise<BackupResult> {
    const { cuts } = this.#cell
    try {
      const incremental = order.kind === 'incremental' ? await this.#incremental(order) : undefined
      if (incremental !== undefined) return incremental
      try {
        return await this.#base(order)
      } catch (error) {
        // A checkpoint has changed the file of a new cell while it was read, and kept it aside before.
        if (this.#isOrigin && isCellError(error, 'busy')) return await this.#base(order)
        throw error
      }
    } catch (error) {
      await cuts.failed()
      throw error
    }
  }

  async #incremental(order: BackupOrder): Promise<BackupResult | undefined> {
    const { cuts } = this.#cell
    const version = order.nextVersion()
    const after = this.#target.lastLogObject()
    const cut = await cuts.cutIncremental(version, order.versionsMax)
    if (cut === undefined) return undefined
    const { chain, segments } = cut
    await this.#options.willMove?.(segments.reduce((sum, { size }) => sum + size, 0))
    const manifest = this.#manifest(order, version, cut, after, {
      database: null,
      chain,
      wals: segments.map(walEntry),
    })
    const result = await this.#store(manifest, segments.map(segmentSource))
    await cuts.stored({ version, kind: order.kind, cut })
    return result
  }

  /** Copies the database while writers and checkpoints continue, and proves the copy before it counts. */
  async #base(order: BackupOrder): Promise<BackupResult> {
    const { cuts } = this.#cell
    // Also in place of an incremental: only the cut tells that a base is due. From its beginning on, logs are kept.
    await this.#options.willMove?.(order.sizeBytes)
    const copy = new BaseCopy(this.#target.spoolDirectory)
    try {
      const start = await cuts.beginBase(order.beginsHistory)
      const isOrigin = start.isOrigin !== undefined
      this.#isOrigin = isOrigin
      await this.#read(copy, start)
      const version = order.nextVersion()
      const after = this.#target.lastLogObject()
      const cut = await cuts.endBase(start.id, version)
      await copy.redo(cut.segments, this.#options.signal)
      const source = copy.source()
      const database = { name: DATABASE_MEMBER, size: source.size } as const
      // The first version of a new cell is nobody's request, and holds nothing that was committed.
      const made = isOrigin ? { ...order, ...ORIGIN } : order
      const manifest = this.#manifest(made, version, cut, after, { database, chain: [], wals: [] })
      const result = await this.#store(manifest, [source], copy)
      await cuts.stored({ version, kind: made.kind, cut })
      return result
    } finally {
      await copy.dispose()
    }
  }

  async #read(copy: BaseCopy, start: BaseStart): Promise<void> {
    const { signal, onProgress } = this.#options
    const reader = await this.#cell.openReader(start)
    try {
      await copy.read(reader, start.size, {
        signal,
        onProgress: (bytes, total) => onProgress?.({ phase: 'read', bytes, total }),
      })
    } finally {
      await reader.close()
    }
  }

  /** Damage that goes into a backup is found only when the last sound one may be gone. */
  async #prove(copy: BaseCopy | undefined, signal: AbortSignal): Promise<boolean> {
    if (copy === undefined) return false
    const { account_id, cell_id: base } = this.#identity
    const account = account_id ?? ''
    try {
      return await this.#target.proveDatabase(copy.path, copy.size, { account, signal, base })
    } catch (error) {
      throw isCellError(error, 'backup_corrupt') ? damagedCell(error) : error
    }
  }

  /** @param copy of the database, proven while it is compressed: the upload waits for both */
  async #store(manifest: Manifest, members: readonly MemberSource[], copy?: BaseCopy): Promise<BackupResult> {
    const { objectStore, index, probe, spoolDirectory, clock } = this.#target
    const { signal, onProgress } = this.#options
    const spool = new Spool(spoolDirectory)
    try {
      await this.#compress(spool, manifest, members, copy)
      // A slow upload needs no second copy on the disk.
      const [{ body, sha256 }] = await Promise.all([spool.finish(), copy?.dispose()])
      const uploading = objectStore.put(manifest.version, body, {
        signal,
        onProgress: (bytes) => onProgress?.({ phase: 'upload', bytes, total: body.size }),
      })
      uploading.then(
        () => probe.noted(true),
        (error) => probe.noted(isCellError(error, 'object_exists') || signal?.aborted === true),
      )
      await uploading
      index.stored(manifest, body.size)
      return {
        version: manifest.version,
        kind: manifest.kind,
        baseVersion: manifest.base_version,
        sizeBytes: body.size,
        sha256,
        createdAt: Date.parse(manifest.created_at),
        durationMs: clock.monotonic() - this.#started,
      }
    } finally {
      await spool.dispose()
    }
  }

  async #compress(
    spool: Spool,
    manifest: Manifest,
    members: readonly MemberSource[],
    copy: BaseCopy | undefined,
  ): Promise<void> {
    const { writeArchive } = await import('../archive/archive-writer.ts')
    const { signal, onProgress } = this.#options
    const failed = new AbortController()
    const both = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal])
    const proof = this.#prove(copy, both)
    const writing = writeArchive(spool, manifest, members, {
      isSound: proof,
      signal: both,
      onProgress: (bytes, total) => onProgress?.({ phase: 'compress', bytes, total }),
    })
    // If one fails, the other one ends with the same error.
    for (const each of [proof, writing]) each.catch((error) => failed.abort(error))
    // Both have ended after this: neither uses a file that is removed next.
    for (const outcome of await Promise.allSettled([proof, writing]))
      if (outcome.status === 'rejected') throw outcome.reason
  }

  #manifest(
    { kind, origin }: BackupOrder,
    version: string,
    { cutAt, sqliteVersion, log, repeats }: BaseCut | IncrementalCut,
    after: string | null,
    content: Pick<Manifest, 'database' | 'chain' | 'wals'>,
  ): Manifest {
    const { logPrefix } = this.#target
    return {
      format: FORMAT,
      ...this.#identity,
      version,
      kind,
      base_version: content.chain[0] ?? null,
      // The wall clock's time. The version's stamp is an order: it stays ahead if the clock was once ahead.
      created_at: new Date(cutAt).toISOString(),
      origin,
      sqlite_version: sqliteVersion,
      // Who asks for a backup means it as the latest, whatever it holds.
      ...(origin === 'schedule' && repeats !== undefined && { repeats }),
      ...(log && { log: { ...log, after, ...(logPrefix !== '' && { prefix: logPrefix }) } }),
      ...content,
    }
  }
}

function walEntry({ size, frames, pageSize, salts }: Segment, index: number): Manifest['wals'][number] {
  return { name: walMember(index), size, frames, page_size: pageSize, salts }
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

function damagedCell(cause: CellError): CellError {
  return new CellError(
    'backup_corrupt',
    `Nothing was stored, because the copy of the cell's database is damaged: ${cause.message} The earlier backups stay. Restore the cell from one of them.`,
    { ...cause.details, cause },
  )
}

/**
 * After the object store has refused an object, a small one shows whether it takes any: a backup reads and compresses the
 * whole cell before its own PUT can fail.
 */
export class PutProbe {
  readonly #store: ObjectStore
  #isRefused = false

  constructor(store: ObjectStore) {
    this.#store = store
  }

  /** Call with the outcome of each PUT of a backup. */
  noted(isStored: boolean): void {
    this.#isRefused = !isStored
  }

  /** Call before a backup reads anything. @throws what the object store throws, if it still takes nothing */
  async check(options: CallOptions): Promise<void> {
    if (!this.#isRefused) return
    const key = probeKey(randomUUID())
    await this.#store.put(key, bufferBody(Buffer.from('probe\n')), options)
    this.#isRefused = false
    // One that stays is a few bytes.
    await this.#store.delete(key, options).catch(() => {})
  }
}
