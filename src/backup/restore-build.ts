import fs from 'node:fs/promises'
import type { CellPaths } from '../engine/cell-path.ts'
import { FILE_MODE, makeDirectory } from '../engine/durable-files.ts'
import { type Connection, openConnection } from '../engine/sqlite.ts'
import { CellError } from '../errors.ts'
import { MANIFEST_HEAD_BYTES, readArchive, readManifest } from './archive-reader.ts'
import { corrupt, DATABASE_MEMBER, type Manifest } from './manifest.ts'
import { backupNotFound } from './object-keys.ts'
import type { CallOptions, ObjectStore } from './object-store.ts'
import { discardIncoming } from './restore-install.ts'

export interface RestoreProgress extends CallOptions {
  /** Called with the stored bytes read so far, and how many there are. */
  onProgress?: ((bytes: number, total: number) => void) | undefined
}

/** Whose backup it has to be. */
export interface Expected {
  storeId: string
  cellId: string
}

/** The manifest of a version. @throws `backup_not_found`, `backup_corrupt`, and what the object store throws */
export async function fetchManifest(
  store: ObjectStore,
  version: string,
  expected: Expected,
  options: CallOptions = {},
): Promise<Manifest> {
  const head = await store.get(version, { ...options, range: { offset: 0, length: MANIFEST_HEAD_BYTES } })
  if (head === undefined) throw backupNotFound()
  const chunks: Uint8Array[] = []
  for await (const chunk of head.body) chunks.push(chunk)
  const manifest = await readManifest(Buffer.concat(chunks))
  checkIdentity(manifest, version, expected)
  return manifest
}

/**
 * Builds the database of a version in `incoming.db` and proves it: every member's length and SHA-256, a complete chain,
 * every frame of every log taken, and SQLite's quick_check (invariant 10). The cell itself is not touched.
 *
 * @returns the database's size in bytes; the file is fsynced
 * @throws `backup_corrupt`, `backup_not_found`; nothing is left then
 */
export async function buildIncoming(
  store: ObjectStore,
  target: Manifest,
  expected: Expected,
  paths: CellPaths,
  progress: RestoreProgress = {},
): Promise<number> {
  makeDirectory(paths.directory)
  discardIncoming(paths)
  try {
    const versions = [...target.chain, target.version]
    const sizes = await Promise.all(versions.map((version) => sizeOf(store, version, progress)))
    const total = sizes.reduce((sum, size) => sum + size, 0)
    let done = 0
    const builder = new IncomingBuilder(paths.incoming, target, expected)
    for (const version of versions) {
      const object = await store.get(version, { signal: progress.signal })
      if (object === undefined) throw missingLink(version)
      const counted = count(object.body, (bytes) => {
        done += bytes
        progress.onProgress?.(done, total)
      })
      await readArchive(counted, builder.sinkFor(version))
    }
    return await builder.prove()
  } catch (error) {
    discardIncoming(paths)
    throw error
  }
}

async function sizeOf(store: ObjectStore, version: string, { signal }: RestoreProgress): Promise<number> {
  const head = await store.head(version, { signal })
  if (head === undefined) throw missingLink(version)
  return head.size
}

function missingLink(version: string): CellError {
  return corrupt(version, 'this backup is needed by the one asked for, and it is missing')
}

async function* count(
  body: AsyncIterable<Uint8Array>,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    onBytes(chunk.length)
    yield chunk
  }
}

function checkIdentity(manifest: Manifest, version: string, { storeId, cellId }: Expected): void {
  if (manifest.version !== version) throw corrupt('manifest.json', 'it is that of another version')
  if (manifest.cell_id !== cellId) throw corrupt('manifest.json', 'it is that of another cell')
  if (manifest.store_id !== storeId) throw corrupt('manifest.json', 'it is that of another store')
}

/** Puts the members of one archive after the other on the incoming database. */
class IncomingBuilder {
  readonly #file: string
  readonly #versions: readonly string[]
  readonly #expected: Expected
  #applied = 0
  #current: Manifest | undefined

  constructor(file: string, target: Manifest, expected: Expected) {
    this.#file = file
    this.#versions = [...target.chain, target.version]
    this.#expected = expected
  }

  sinkFor(version: string) {
    return {
      manifest: (manifest: Manifest) => this.#begin(manifest, version),
      member: (name: string, size: number, bytes: AsyncIterable<Buffer>) => this.#member(name, size, bytes),
    }
  }

  async prove(): Promise<number> {
    const connection = openForRestore(this.#file)
    try {
      const problems = connection.pragma('quick_check(1)', { simple: true })
      if (problems !== 'ok') throw corrupt(DATABASE_MEMBER, `SQLite finds it damaged (${String(problems)})`)
    } catch (error) {
      throw error instanceof CellError ? error : corrupt(DATABASE_MEMBER, 'SQLite cannot read it', error)
    } finally {
      connection.close()
    }
    const handle = await fs.open(this.#file, 'r+')
    try {
      await handle.sync()
      return (await handle.stat()).size
    } finally {
      await handle.close()
    }
  }

  #begin(manifest: Manifest, version: string): void {
    checkIdentity(manifest, version, this.#expected)
    // The chain of each link must be what was applied so far: a swapped link would fit nowhere.
    const before = this.#versions.slice(0, this.#applied)
    if (manifest.chain.length !== before.length || manifest.chain.some((link, i) => link !== before[i])) {
      throw corrupt('manifest.json', 'it does not continue the backups before it')
    }
    if ((manifest.database === null) === (this.#applied === 0)) {
      throw corrupt('manifest.json', 'a chain begins with a database and goes on without one')
    }
    this.#applied++
    this.#current = manifest
  }

  async #member(name: string, size: number, bytes: AsyncIterable<Buffer>): Promise<void> {
    const { database, wals } = this.#current as Manifest
    if (database?.name === name) {
      if (database.size !== size) throw corrupt(name, 'its size is not what the manifest says')
      await writeMember(this.#file, bytes)
      return
    }
    const wal = wals.find((each) => each.name === name)
    if (wal === undefined) throw corrupt(name, 'the manifest does not name it')
    if (wal.size !== size) throw corrupt(name, 'its size is not what the manifest says')
    await writeMember(`${this.#file}-wal`, bytes)
    this.#apply(name, wal.frames)
  }

  /** Lets SQLite's own recovery apply a log, and makes sure that it took every frame: it stops silently at a bad one. */
  #apply(name: string, frames: number): void {
    try {
      const connection = openForRestore(this.#file)
      try {
        connection.pragma('journal_mode = WAL')
        connection.pragma('synchronous = OFF')
        connection.pragma('wal_autocheckpoint = 0')
        connection.prepare('SELECT count(*) FROM sqlite_schema').get()
        const [state] = connection.pragma('wal_checkpoint(NOOP)') as { log: number }[]
        if (state?.log !== frames)
          throw corrupt(name, `SQLite took ${state?.log ?? 0} of its ${frames} frames`)
        const [done] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
        if (done?.busy !== 0) throw corrupt(name, 'it could not be applied')
      } finally {
        connection.close()
      }
    } catch (error) {
      throw error instanceof CellError ? error : corrupt(name, 'SQLite cannot apply it', error)
    }
  }
}

function openForRestore(file: string): Connection {
  return openConnection(file)
}

async function writeMember(file: string, bytes: AsyncIterable<Buffer>): Promise<void> {
  const handle = await fs.open(file, 'w', FILE_MODE)
  try {
    for await (const chunk of bytes) {
      let at = 0
      while (at < chunk.length) at += (await handle.write(chunk, at)).bytesWritten
    }
  } finally {
    await handle.close()
  }
}
