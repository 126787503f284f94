import fs from 'node:fs/promises'
import path from 'node:path'
import type { ArchiveSink, Received } from '../../archive/archive-reader.ts'
import { corrupt } from '../../archive/backup-errors.ts'
import { checkIdentity, MANIFEST_MEMBER, type Manifest } from '../../archive/manifest.ts'
import type { RestoreTaskRunner } from '../threads/restore-task.ts'
import { type ArchivePlace, checkDeclared, checkRoom, checkSize } from './restore-limits.ts'
import type { WriteMember } from './restore-member.ts'

/** How the archive's members are written and proven. */
export interface ArchiveWork {
  /** @param bytes that the manifest declares */
  tasksFor(bytes: number): RestoreTaskRunner
  write: WriteMember
}

/** Applies one archive of a chain to the database under restore, as it is read. */
export class ArchiveInChain implements ArchiveSink {
  readonly #place: ArchivePlace
  readonly #work: ArchiveWork
  #tasks: RestoreTaskRunner | undefined
  #manifest: Manifest | undefined
  /** Members received, in order. */
  readonly #members: string[] = []

  constructor(place: ArchivePlace, work: ArchiveWork) {
    this.#place = place
    this.#work = work
  }

  manifest(manifest: Manifest): void {
    const { file, version, before, expected } = this.#place
    checkIdentity(manifest, version, expected)
    checkDeclared(manifest, expected.limits)
    // The manifest's chain must be the versions applied so far: this finds swapped archives.
    if (manifest.chain.length !== before.length || manifest.chain.some((link, i) => link !== before[i])) {
      throw corrupt(MANIFEST_MEMBER, 'it does not continue the backups before it')
    }
    if ((manifest.database === null) === (before.length === 0)) {
      throw corrupt(
        MANIFEST_MEMBER,
        'the first backup of a chain must hold a database, and the others must not',
      )
    }
    const { spareBytes } = expected
    if (spareBytes !== undefined) checkRoom(manifest, path.dirname(file), spareBytes)
    this.#manifest = manifest
    const { database, wals } = manifest
    this.#tasks = this.#work.tasksFor(wals.reduce((sum, wal) => sum + wal.size, database?.size ?? 0))
  }

  async member(name: string, size: number, bytes: AsyncIterable<Buffer>): Promise<Received> {
    const { file, expected } = this.#place
    const { database, wals } = this.#manifest as Manifest
    const tasks = this.#tasks as RestoreTaskRunner
    // Logs can be applied in one order only.
    if (name !== this.#expectedMembers()[this.#members.length]) {
      throw corrupt(name, 'the manifest names another member at this position')
    }
    this.#members.push(name)
    const wal = wals.find((each) => each.name === name)
    if (size !== (wal ?? database)?.size) throw corrupt(name, 'its size differs from the manifest')
    const received = await this.#work.write(wal === undefined ? file : `${file}-wal`, bytes, tasks)
    if (wal !== undefined) {
      await tasks.run({ kind: 'apply log', file, member: name, frames: wal.frames })
      // A log's last frame sets the size of the whole file.
      checkSize((await fs.stat(file)).size, expected.limits)
    }
    return received
  }

  /**
   * Call after the archive was read.
   *
   * @returns whether the database is as the archive has it: no log was applied
   * @throws `backup_corrupt` if a member of the manifest is missing
   */
  end(): boolean {
    const [missing] = this.#expectedMembers().slice(this.#members.length)
    if (missing !== undefined) throw corrupt(missing, 'it is missing')
    const { database, wals } = this.#manifest as Manifest
    return database !== null && wals.length === 0
  }

  #expectedMembers(): string[] {
    const { database, wals } = this.#manifest as Manifest
    return [...(database === null ? [] : [database.name]), ...wals.map(({ name }) => name)]
  }
}
