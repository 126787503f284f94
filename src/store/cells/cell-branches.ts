import type { BackupBranches, SourceFacts } from '../../backup/branches.ts'
import { BACKUP, type CellSource, checkSource, SOURCE } from '../../backup/versions/backup-options.ts'
import type { BackupOptions, RestoreResult } from '../../backup/versions/backup-types.ts'
import type { Log } from '../../base/log.ts'
import {
  callback,
  checkOptions,
  definedOnly,
  group,
  maybe,
  type Shape,
} from '../../base/options/option-shapes.ts'
import { CellError } from '../../errors.ts'
import type { CellFiles } from '../open/cell-files.ts'
import { CREATE } from '../settings/call-options.ts'
import type { CellCreations, CreatedCell } from './cell-creations.ts'
import type { CreateCellOptions } from './cell-directory.ts'

/** What a new cell is that begins with the state of another cell. */
export interface BranchCellOptions extends CreateCellOptions, Omit<BackupOptions, 'permit'> {
  /** Of the same account. Without `accountId`, the new cell belongs to this cell's account. */
  from: CellSource
  /** Called with 0 when its turn has come, and with the cell's bytes once it is built, before there is a cell; may throw. @internal */
  permit?: ((bytes: number, cellId: string) => void) | undefined
}

const { signal, onProgress, requestId } = BACKUP
const BRANCH: Shape<BranchCellOptions> = {
  ...CREATE,
  from: group(SOURCE),
  permit: maybe(callback()),
  signal,
  onProgress,
  requestId,
}

/** What is no object is refused where the options of a new cell are checked. */
export function isBranch(options: CreateCellOptions | BranchCellOptions): options is BranchCellOptions {
  return typeof options === 'object' && options !== null && 'from' in options
}

const RETRY_MS = 5_000

export interface CellBranchesParts {
  creations: CellCreations
  files: CellFiles
  log: Log
  /** Called when the cell's file is there, and before the catalog has the cell. */
  built(id: string): void
}

/** Makes cells of backups of other cells: the file is built and proven aside, and only then there is a cell. */
export class CellBranches {
  readonly #parts: CellBranchesParts
  /** The idempotency keys of calls that are under way. */
  readonly #keys = new Set<string>()

  constructor(parts: CellBranchesParts) {
    this.#parts = parts
  }

  /** @throws as `CellStore.createCell` with `from` */
  async branch(options: BranchCellOptions, branches: BackupBranches): Promise<CreatedCell> {
    checkOptions(options, BRANCH)
    checkSource(options.from)
    const { accountId, idempotency } = options
    const first = this.#parts.creations.madeBefore(options)
    if (first !== undefined) return first
    const key =
      idempotency && JSON.stringify([accountId, idempotency.method, idempotency.path, idempotency.key])
    if (key === undefined) return await this.#make(options, branches)
    if (this.#keys.has(key)) throw inProgress()
    this.#keys.add(key)
    return await this.#make(options, branches).finally(() => this.#keys.delete(key))
  }

  async #make(options: BranchCellOptions, branches: BackupBranches): Promise<CreatedCell> {
    const { creations, log } = this.#parts
    const { from, name, idempotency, admit, requestId, signal } = options
    const facts = await branches.factsOf(from, options.accountId, signal)
    const accountId = facts.accountId ?? undefined
    const durability = options.durability ?? facts.durability ?? undefined
    let restored: RestoreResult | undefined
    const created = await creations.createBuilt(
      definedOnly({ name, accountId, durability, idempotency, admit }),
      async (id) => {
        restored = await this.#build(id, options, facts, branches)
      },
    )
    const { version, sizeBytes, durationMs } = restored ?? {}
    const about = { cellId: created.id, source: from.cellId, version, sizeBytes, durationMs, requestId }
    if (restored !== undefined) log.info(about, 'a cell is made from a backup of another cell')
    return created
  }

  async #build(
    id: string,
    { from, accountId, permit, signal, onProgress }: BranchCellOptions,
    facts: SourceFacts,
    branches: BackupBranches,
  ): Promise<RestoreResult> {
    const { files, built } = this.#parts
    try {
      const turn = { check: () => permit?.(0, id) }
      const restored = await files.adopt(id, () =>
        branches.build(id, from, facts, { askedBy: accountId, signal, onProgress, permit: turn }),
      )
      permit?.(files.sizeBytes(id), id)
      built(id)
      return restored
    } catch (error) {
      files.remove(id)
      throw error
    }
  }
}

function inProgress(): CellError {
  return new CellError(
    'idempotency_in_progress',
    'A request with this Idempotency-Key is still at work. Send it again later for its answer.',
    { retryAfterMs: RETRY_MS },
  )
}
