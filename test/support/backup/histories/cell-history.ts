import type { BackupOrigin } from '../../../../src/backup/versions/backup-types.ts'
import { compareVersions } from '../../../../src/backup/versions/object-keys.ts'
import type { BucketDamage } from './bucket-damage.ts'

/** One backup, as the model knows it from the moment at which it was made. */
export interface MadeVersion {
  version: string
  /** What the cell held. */
  content: string
  /** The versions below it, its base first. */
  chain: readonly string[]
  origin: BackupOrigin
  createdAt: number
}

/** What must be true of a cell and of its backups. */
export class CellHistory {
  readonly id: string
  readonly versions = new Map<string, MadeVersion>()
  readonly pins = new Set<string>()
  plan: string | undefined
  /** What the cell holds now; undefined if it is deleted or lost. */
  content: string | undefined
  isDeleted = false
  isPurged = false
  /** The version whose state this machine knows to be stored; undefined on a new machine. */
  known: string | undefined
  /** The newest mark of a restore: to which version, and the newest version that was made before it. */
  #mark: { version: string; after: string } | undefined
  readonly #bucket: BucketDamage

  constructor(id: string, bucket: BucketDamage) {
    this.id = id
    this.#bucket = bucket
  }

  get prefix(): string {
    return `snapshots/${this.id}/`
  }

  /** On a new machine nobody knows of a version that is not stored either, and its name is free again. */
  machineLost(): void {
    this.known = undefined
    for (const version of this.versions.keys()) if (!this.#bucket.has(version)) this.versions.delete(version)
  }

  made(each: MadeVersion): void {
    this.versions.set(each.version, each)
    this.known = each.version
  }

  restored(version: string): void {
    this.content = this.of(version).content
    // A repeat of the last state leaves no mark, and the one before it stays.
    if (version !== this.last?.version)
      this.#mark = { version, after: [...this.versions.keys()].at(-1) as string }
    this.known = version
    this.isDeleted = false
  }

  of(version: string): MadeVersion {
    const made = this.versions.get(version)
    if (made === undefined) throw new Error(`Nobody has made ${version}.`)
    return made
  }

  /** What is stored, damaged or not, newest first. */
  get stored(): MadeVersion[] {
    const stored = [...this.versions.values()].filter(({ version }) => this.#bucket.has(version))
    return stored.sort((a, b) => compareVersions(a.version, b.version))
  }

  /** The objects that a restore of the version reads and that are damaged or missing. */
  damaged({ version, chain }: MadeVersion): string[] {
    return [...chain, version].filter((key) => this.#bucket.isDamaged(key))
  }

  /** Whether no object of its chain was ever damaged, so that a store has no reason at all to pass it over. */
  isClean({ version, chain }: MadeVersion): boolean {
    return ![...chain, version].some((key) => this.#bucket.wasDamaged(key))
  }

  /** The version that a loss of the cell's files brings back; undefined if nothing is stored. */
  get last(): MadeVersion | undefined {
    const [newest] = this.stored
    const mark = this.#mark
    // Without the versions that were made after it, the mark is again the last that is known of the cell.
    const isLast =
      newest !== undefined && mark !== undefined && compareVersions(newest.version, mark.after) >= 0
    return isLast && this.#bucket.has(mark.version) ? this.of(mark.version) : newest
  }
}
