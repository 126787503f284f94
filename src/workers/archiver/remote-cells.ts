import type {
  BackupStart,
  CellPort,
  KnownCell,
  RestoredCell,
  RestoreStart,
} from '../../backup/archiver/cell-port.ts'
import type { BaseCut, BaseStart, IncrementalCut, StoredBackup } from '../../backup/changes/cell-cuts.ts'
import type { CollectedLook, CollectLimits, ShippedPlace } from '../../backup/changes/cell-log.ts'
import { type PackedPiece, unpackLogs } from '../../backup/changes/packed-logs.ts'
import type { CellCall, FromArchiver } from '../protocol/archiver-protocol.ts'
import { type Answer, OpenCalls } from '../protocol/open-calls.ts'

/** The archiver's way to the cells of its node: a message for each call, and one for its answer. */
export class RemoteCells implements CellPort {
  readonly #send: (message: FromArchiver) => void
  readonly #calls = new OpenCalls<unknown>()

  constructor(send: (message: FromArchiver) => void) {
    this.#send = send
  }

  beginBackup(cellId: string): Promise<BackupStart> {
    return this.#call({ method: 'beginBackup', args: [cellId] })
  }

  dropChain(cellId: string): Promise<void> {
    return this.#call({ method: 'dropChain', args: [cellId] })
  }

  claimVersion(cellId: string, version: string): Promise<void> {
    return this.#call({ method: 'claimVersion', args: [cellId, version] })
  }

  beginBase(cellId: string): Promise<BaseStart> {
    return this.#call({ method: 'beginBase', args: [cellId] })
  }

  endBase(cellId: string, id: string, version: string): Promise<BaseCut> {
    return this.#call({ method: 'endBase', args: [cellId, id, version] })
  }

  cutIncremental(cellId: string, version: string, versionsMax: number): Promise<IncrementalCut | undefined> {
    return this.#call({ method: 'cutIncremental', args: [cellId, version, versionsMax] })
  }

  stored(cellId: string, backup: StoredBackup): Promise<void> {
    return this.#call({ method: 'stored', args: [cellId, backup] })
  }

  failed(cellId: string): Promise<void> {
    return this.#call({ method: 'failed', args: [cellId] })
  }

  endBackup(cellId: string): Promise<void> {
    return this.#call({ method: 'endBackup', args: [cellId] })
  }

  beginRestore(cellId: string): Promise<RestoreStart> {
    return this.#call({ method: 'beginRestore', args: [cellId] })
  }

  checkBuilt(cellId: string, bytes: number): Promise<void> {
    return this.#call({ method: 'checkBuilt', args: [cellId, bytes] })
  }

  noteMark(cellId: string, name: string, existed: boolean): Promise<void> {
    return this.#call({ method: 'noteMark', args: [cellId, name, existed] })
  }

  install(cellId: string, restored: RestoredCell): Promise<void> {
    return this.#call({ method: 'install', args: [cellId, restored] })
  }

  endRestore(cellId: string): Promise<void> {
    return this.#call({ method: 'endRestore', args: [cellId] })
  }

  async collectLogs(limits: CollectLimits): Promise<CollectedLook> {
    const look: CollectedLook<PackedPiece> = await this.#call({ method: 'collectLogs', args: [limits] })
    return unpackLogs(look)
  }

  hurryLook(): Promise<void> {
    return this.#call({ method: 'hurryLook', args: [] })
  }

  logsShipped(places: ShippedPlace[]): Promise<void> {
    return this.#call({ method: 'logsShipped', args: [places] })
  }

  dropHistory(cellId: string): Promise<void> {
    return this.#call({ method: 'dropHistory', args: [cellId] })
  }

  findCell(cellId: string): Promise<KnownCell> {
    return this.#call({ method: 'findCell', args: [cellId] })
  }

  isDeleted(cellId: string, committedAt: number): Promise<boolean> {
    return this.#call({ method: 'isDeleted', args: [cellId, committedAt] })
  }

  answer(answer: Answer): void {
    this.#calls.settle(answer)
  }

  #call<T>(call: CellCall): Promise<T> {
    const { id, promise } = this.#calls.begin(undefined)
    this.#send({ type: 'call', id, call })
    return promise as Promise<T>
  }
}
