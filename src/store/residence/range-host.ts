import { type ArchiverClient, settledBy } from '../../backup/archiver/archiver.ts'
import { mapLimit } from '../../base/async/map-limit.ts'
import { isInSpans, type RangeSpan, rangeOf } from '../../catalog/assignment/assignment.ts'
import { CellError } from '../../errors.ts'
import type { CellHost, ReleaseOptions, TenureEnd } from '../cell-host.ts'
import type { Archiving } from '../open/archiving.ts'
import type { LocalCells } from '../open/local-cells.ts'
import type { StoreCore } from '../store-core.ts'
import type { Upkeep } from '../upkeep.ts'
import { notHere } from './residence.ts'

export interface RangeHostParts {
  core: StoreCore
  archiving: Pick<Archiving<ArchiverClient>, 'archiver' | 'backups'>
  /** Closes a cell in its process, and removes what the local state has of it. */
  closeCell(cellId: string): Promise<void>
  /** As `Upkeep.needsBase`. */
  needsBase(cellId: string): Promise<void>
  /** Ranges that were about to leave stay: work of the node's own begins again. */
  resumed(): void
}

/** Versions that a release stores at a time; the archiver has its own bounds. */
const AT_ONCE = 64
/** Files are removed in the thread pool, which the fsyncs of commits need too. */
const REMOVALS_AT_ONCE = 2

/** {@link CellHost} of a node, whichever processes have its cells open. */
export class RangeHost implements CellHost {
  readonly #parts: RangeHostParts

  constructor(parts: RangeHostParts) {
    this.#parts = parts
  }

  async release(
    spans: readonly RangeSpan[],
    { signal = new AbortController().signal, beforeStop }: ReleaseOptions = {},
  ): Promise<TenureEnd> {
    const { core } = this.#parts
    const { residence, ownership } = core
    residence.leave(spans)
    // Most of it while requests are served. What they commit meanwhile is little.
    await this.#store(spans, signal)
    await this.#settle(spans, signal)
    const known = await core.lastLog({ signal })
    await beforeStop?.()
    await residence.release(spans, signal)
    core.changes.endWhere((cellId) => isOf(spans, cellId), notHere())
    await this.#store(spans, signal)
    await this.#settle(spans, signal)
    const stampBound = residence.stamps.newestIn(spans, ownership.earlierStamps)
    return { lastLog: await core.lastLog({ signal, known }), stampBound }
  }

  async prepare(cellIds: readonly string[], signal?: AbortSignal): Promise<void> {
    const { archiver } = this.#parts.archiving
    const request = { account: '', need: 'requested' } as const
    await mapLimit(cellIds, AT_ONCE, (cellId) =>
      archiver.prepare({ cellId, ...request }, { signal }).catch(() => {}),
    )
  }

  resume(spans: readonly RangeSpan[]): void {
    this.#parts.core.residence.settle(spans)
    this.#parts.resumed()
  }

  async forget(spans: readonly RangeSpan[]): Promise<void> {
    const { core, closeCell } = this.#parts
    const { tenures, ownership, lifecycle } = core
    const gone = tenures.cellsIn(spans).filter((id) => !ownership.isHere(id))
    await mapLimit(gone, REMOVALS_AT_ONCE, async (id) => {
      await closeCell(id)
      await lifecycle.moveLocalAside(id, core.findCell(id)?.accountId ?? null)()
    })
  }

  async acquired(spans: readonly RangeSpan[]): Promise<void> {
    const { core, closeCell } = this.#parts
    for (const id of core.staleCells(spans)) await closeCell(id)
    core.setStaleAside(spans)
    core.residence.stamps.came(spans)
    core.residence.settle(spans)
    void this.#bringHere(spans)
  }

  /** What cells of the ranges have committed is in the object store, and follows a version there. */
  async #store(spans: readonly RangeSpan[], signal: AbortSignal): Promise<void> {
    const { core, archiving } = this.#parts
    const changed = core.destination?.progress.changed() ?? []
    const exists = (cellId: string) => core.findCell(cellId)?.deletedAt === null
    const cells = changed.map(({ cellId }) => cellId).filter((id) => isOf(spans, id) && exists(id))
    if (cells.length === 0) return
    const without = await withoutHistory(archiving.archiver, cells, signal)
    const options = { origin: 'schedule', signal } as const
    await mapLimit(without, AT_ONCE, (id) => archiving.backups.backup(id, 'incremental', options, 'waiting'))
  }

  /** Every backup and restore of the ranges' cells has ended: none of their objects is on its way. */
  async #settle(spans: readonly RangeSpan[], signal: AbortSignal): Promise<void> {
    const { archiver } = this.#parts.archiving
    const busy = new Set(archiver.cellsAtWork.filter((id) => isOf(spans, id)))
    const settled = settledBy(archiver)
    await Promise.all([...busy].map((id) => settled(id, { signal })))
  }

  /** The cells come in the background. Each gets a version of this node: until then the log of the node before is needed (C9). */
  async #bringHere(spans: readonly RangeSpan[]): Promise<void> {
    const { core, needsBase } = this.#parts
    await core.recovery?.again()
    const { progress } = core.destination ?? {}
    for (const id of core.tenures.cellsIn(spans)) {
      if (!core.residence.mayBegin(id) || core.findCell(id)?.deletedAt !== null) continue
      // One that has changed gets its version anyway.
      if (progress?.find(id).chain === null) needsBase(id).catch(() => {})
    }
  }
}

/** Of a store whose cells this process opens. @returns undefined without an object store */
export function hostInProcess(
  core: StoreCore,
  archiving: RangeHostParts['archiving'] | undefined,
  cells: LocalCells,
  upkeep: Upkeep,
): RangeHost | undefined {
  const closeCell = async (id: string) => {
    cells.pool.peek(id)?.holds.endAll('the cell has moved to another node')
    cells.release(id)
  }
  return archiving && new RangeHost({ core, archiving, closeCell, ...upkeepOf(upkeep) })
}

/** What a host needs of the upkeep. */
export function upkeepOf(upkeep: Upkeep): Pick<RangeHostParts, 'needsBase' | 'resumed'> {
  return {
    needsBase: (cellId) => upkeep.needsBase(cellId, 'came from another node'),
    resumed: () => upkeep.reschedule(),
  }
}

function isOf(spans: readonly RangeSpan[], cellId: string): boolean {
  return isInSpans(rangeOf(cellId), spans)
}

/** Ships what the cells have committed. @returns those of which only a version can be stored */
async function withoutHistory(
  archiver: ArchiverClient,
  cells: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  if (archiver.shipping === undefined) return [...cells]
  const flushed = await archiver.flush(signal, { cells })
  const unreadable = flushed.unreadable.find((id) => cells.includes(id))
  if (unreadable !== undefined) throw cannotMove(unreadable)
  return flushed.withoutHistory.filter((id) => cells.includes(id))
}

function cannotMove(cellId: string): CellError {
  return new CellError(
    'busy',
    `The ranges stay at this node: what cell ${cellId} has committed is not in the object store, and its files cannot be read.`,
  )
}
