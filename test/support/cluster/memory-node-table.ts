import type {
  Beat,
  HeadSeen,
  NodeRow,
  NodeTable,
  TakenRow,
  WatchedBeat,
} from '../../../src/cluster/membership/node-table.ts'
import { CellError } from '../../../src/errors.ts'

/** The table of nodes in memory, shared by the nodes of a test. It can be away, and it can forget. */
export class MemoryNodeTable implements NodeTable {
  rows = new Map<string, NodeRow>()
  readonly #backedUpTo = new Map<string, number>()
  readonly #taken: TakenRow[] = []
  version = 1
  incarnation = 'server-1'
  server = 'server-1'
  isAway = false
  /** Called with each beat that was taken, before its answer. */
  beaten: (beat: Beat) => Promise<void> = async () => {}

  async join(row: Parameters<NodeTable['join']>[0]): ReturnType<NodeTable['join']> {
    this.#assertHere()
    const known = this.rows.get(row.id)
    if (known !== undefined && (known.state === 'dead' || known.epoch >= row.epoch)) return undefined
    const stampBound = known?.stampBound ?? row.stampBound
    this.rows.set(row.id, { ...row, stampBound, counter: 0, state: 'alive', seenVersion: 0, busyCells: 0 })
    return { stampBound }
  }

  async beat({ id, epoch, backedUpTo, ...beat }: Beat): Promise<HeadSeen | undefined> {
    this.#assertHere()
    const row = this.rows.get(id)
    if (row === undefined || row.epoch !== epoch || row.state === 'dead') return undefined
    this.rows.set(id, { ...row, ...beat })
    if (backedUpTo !== undefined) this.#backedUpTo.set(id, backedUpTo)
    await this.beaten({ id, epoch, ...beat })
    return this.#head
  }

  async list(): Promise<{ nodes: NodeRow[]; head: HeadSeen }> {
    this.#assertHere()
    return { nodes: [...this.rows.values()].map((row) => ({ ...row })), head: this.#head }
  }

  async declareDead({ id, epoch, counter, server }: WatchedBeat): Promise<boolean> {
    this.#assertHere()
    const row = this.rows.get(id)
    if (row === undefined || row.epoch !== epoch || row.counter !== counter || row.state === 'dead')
      return false
    if (this.server !== server) return false
    this.rows.set(id, { ...row, state: 'dead' })
    return true
  }

  async setLeaving(id: string, epoch: number, leaving: boolean): Promise<void> {
    this.#assertHere()
    const row = this.rows.get(id)
    if (row?.epoch === epoch && row.state !== 'dead')
      this.rows.set(id, { ...row, state: leaving ? 'leaving' : 'alive' })
  }

  async remove(id: string, epoch: number, takenAt?: number): Promise<void> {
    this.#assertHere()
    const isThere = this.rows.get(id)?.epoch === epoch
    if (isThere) this.rows.delete(id)
    if (takenAt === undefined || this.#taken.some((each) => each.id === id)) return
    const known = (isThere ? this.#backedUpTo.get(id) : undefined) ?? takenAt + 1
    this.#taken.unshift({ id, at: takenAt, backedUpTo: known <= takenAt ? known : null })
  }

  async taken(): Promise<TakenRow[]> {
    return [...this.#taken]
  }

  get #head(): HeadSeen {
    return { version: this.version, incarnation: this.incarnation, server: this.server }
  }

  #assertHere(): void {
    if (this.isAway) throw new CellError('object_store_unavailable', 'PostgreSQL is away.')
  }
}
