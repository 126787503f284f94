import fs from 'node:fs/promises'
import { FILE_MODE } from '../engine/durable-files.ts'
import type { ArchiveSink } from './archive-reader.ts'
import { applyLog, proveDatabase } from './incoming-database.ts'
import { corrupt, MANIFEST_MEMBER, type Manifest, type ManifestHead } from './manifest.ts'
import { writeAll } from './spool.ts'

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

/** Puts the members of one archive after the other on the incoming database. */
export class IncomingBuilder {
  readonly #file: string
  readonly #versions: readonly string[]
  readonly #expected: Expected
  /** Archives begun. */
  #begun = 0
  #current: Manifest | undefined
  /** Members of the current one, in order. */
  #members: string[] = []

  constructor(file: string, versions: readonly string[], expected: Expected) {
    this.#file = file
    this.#versions = versions
    this.#expected = expected
  }

  /** Takes the next archive. */
  sinkFor(version: string): ArchiveSink {
    return {
      manifest: (manifest) => this.#begin(manifest, version),
      member: (name, size, bytes) => this.#member(name, size, bytes),
    }
  }

  /** Call after each archive. @throws `backup_corrupt` if a member that the manifest names has not come */
  endArchive(): void {
    const [missing] = this.#expectedMembers().slice(this.#members.length)
    if (missing !== undefined) throw corrupt(missing, 'it is missing')
  }

  /** @returns the database's size in bytes; the file is fsynced */
  async prove(): Promise<number> {
    const handle = await fs.open(this.#file, 'r+')
    try {
      // The disk works while SQLite looks.
      const synced = handle.sync()
      synced.catch(() => {})
      try {
        proveDatabase(this.#file)
      } finally {
        await synced
      }
      return (await handle.stat()).size
    } finally {
      await handle.close()
    }
  }

  #begin(manifest: Manifest, version: string): void {
    checkIdentity(manifest, version, this.#expected)
    // The chain of each link must be what was applied so far: a swapped link would fit nowhere.
    const before = this.#versions.slice(0, this.#begun)
    if (manifest.chain.length !== before.length || manifest.chain.some((link, i) => link !== before[i])) {
      throw corrupt(MANIFEST_MEMBER, 'it does not continue the backups before it')
    }
    if ((manifest.database === null) === (this.#begun === 0)) {
      throw corrupt(MANIFEST_MEMBER, 'a chain begins with a database and goes on without one')
    }
    this.#begun++
    this.#current = manifest
    this.#members = []
  }

  async #member(name: string, size: number, bytes: AsyncIterable<Buffer>): Promise<void> {
    const { database, wals } = this.#current as Manifest
    // Logs apply in one order only.
    if (name !== this.#expectedMembers()[this.#members.length]) {
      throw corrupt(name, 'it is not the member that the manifest names here')
    }
    this.#members.push(name)
    const wal = wals.find((each) => each.name === name)
    if (size !== (wal ?? database)?.size) throw corrupt(name, 'its size is not what the manifest says')
    await writeMember(wal === undefined ? this.#file : `${this.#file}-wal`, bytes)
    if (wal !== undefined) applyLog(this.#file, name, wal.frames)
  }

  #expectedMembers(): string[] {
    const { database, wals } = this.#current as Manifest
    return [...(database === null ? [] : [database.name]), ...wals.map(({ name }) => name)]
  }
}

/** How much may wait in memory for the disk: the fsync at the end has only the rest to write. */
const SYNC_EVERY_BYTES = 32 * 1_048_576

/** Writes a member; the disk has one chunk, and everything before it, while the next is decompressed and hashed. */
async function writeMember(file: string, bytes: AsyncIterable<Buffer>): Promise<void> {
  const handle = await fs.open(file, 'w', FILE_MODE)
  let writing: Promise<void> = Promise.resolve()
  let syncing: Promise<void> = Promise.resolve()
  let unsynced = 0
  try {
    for await (const chunk of bytes) {
      await writing
      writing = writeAll(handle, chunk)
      writing.catch(() => {})
      unsynced += chunk.length
      if (unsynced < SYNC_EVERY_BYTES) continue
      unsynced = 0
      await syncing
      syncing = handle.datasync()
      syncing.catch(() => {})
    }
    await writing
    await syncing
  } finally {
    await Promise.allSettled([writing, syncing])
    await handle.close()
  }
}
