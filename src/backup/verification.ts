import type { Clock } from '../base/clock.ts'
import { type CellError, isCellError } from '../errors.ts'
import type { ArchiverClient } from './archiver/archiver.ts'
import type { BackupDestination } from './archiver/backup-destination.ts'
import type { Need } from './archiver/job.ts'
import type { CallOptions } from './object-store/object-store.ts'
import type { VerificationTable } from './verify/verification-table.ts'
import type { VerifyOptions, VerifyResult } from './verify/verify-types.ts'
import { checkVersion, compareVersions, noBackup } from './versions/object-keys.ts'
import { listingOf } from './versions/version-index.ts'

export interface VerificationParts {
  destination: BackupDestination
  archiver: Pick<ArchiverClient, 'verify'>
  table: VerificationTable
  clock: Clock
}

/** Has the archiver prove versions, and records what is proven, and what is damaged. */
export class Verification {
  readonly #parts: VerificationParts

  constructor(parts: VerificationParts) {
    this.#parts = parts
  }

  /** @param cellId a cell's, or the store's for the catalog @throws as `BackupManager.verify` */
  async verify(cellId: string, options: VerifyOptions, need: Need): Promise<VerifyResult> {
    const { archiver, destination } = this.#parts
    const { version, deep = false, signal, onProgress } = options
    if (version !== undefined) checkVersion(version, cellId)
    const { progress, retention } = destination
    const stored = progress.find(cellId).chain?.versions.at(-1)
    const isStored = retention.lastStoredAt(cellId) !== undefined
    try {
      const request = { cellId, version, deep, stored, isStored, account: '', need }
      const result = await archiver.verify(request, { signal, onProgress })
      await this.#record(cellId, result.version, { signal })
      const proof = retention.lastProven(cellId)
      return proof?.version === result.version ? { ...result, provenAt: proof.provenAt } : result
    } catch (error) {
      if (!isCellError(error, 'backup_corrupt')) throw error
      // Its cell was deleted and purged meanwhile: nothing is missing.
      if (isStored && (await this.#isPurged(cellId, { signal }))) throw noBackup()
      await this.foundDamage(cellId, version, error, { signal })
      throw error
    }
  }

  /**
   * Notes what is damaged, unless a newer version makes up for it: the next drill is the cell's.
   *
   * @param version that was asked for; undefined: the newest one
   */
  async foundDamage(
    cellId: string,
    version: string | undefined,
    { details }: CellError,
    options: CallOptions = {},
  ): Promise<void> {
    const { table, clock } = this.#parts
    if (await this.#isMadeUpFor(cellId, version, options)) return
    const { version: object, member = '' } = details
    table.noteDamage(cellId, { version: object ?? member, member, foundAt: clock.now() })
  }

  /** A proof of an older version does not replace that of a newer one, unless nobody can restore the newer one. */
  async #record(cellId: string, version: string, options: CallOptions): Promise<void> {
    const { destination, table } = this.#parts
    const damage = table.damage(cellId)
    if (damage !== undefined && isAsNew(version, damage.version)) table.noteMended(cellId)
    const before = destination.retention.lastProven(cellId)
    if (before !== undefined && !isAsNew(version, before.version)) {
      if (await this.#isRestorable(cellId, before.version, options)) return
    }
    await destination.retention.recordProven(cellId, version, options)
  }

  async #isPurged(cellId: string, options: CallOptions): Promise<boolean> {
    const { retention, index } = this.#parts.destination
    if (retention.lastStoredAt(cellId) !== undefined) return false
    return (await index.versions(cellId, options)).length === 0
  }

  /** Whether a newer version than the damaged one is proven, and does not rest on what is damaged. */
  async #isMadeUpFor(cellId: string, version: string | undefined, options: CallOptions): Promise<boolean> {
    const proof = this.#parts.destination.retention.lastProven(cellId)
    if (version === undefined || proof === undefined || !isAsNew(proof.version, version)) return false
    return await this.#isRestorable(cellId, proof.version, options)
  }

  async #isRestorable(cellId: string, version: string, options: CallOptions): Promise<boolean> {
    const { index } = this.#parts.destination
    const listing = listingOf(await index.versions(cellId, options))
    return (await index.restorable(version, cellId, listing, options)) !== undefined
  }
}

function isAsNew(version: string, other: string): boolean {
  return compareVersions(version, other) <= 0
}
