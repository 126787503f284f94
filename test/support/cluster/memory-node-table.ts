import type {
  Beat,
  HeadSeen,
  NodeRow,
  NodeTable,
  WatchedBeat,
} from '../../../src/cluster/membership/node-table.ts'
import { CellError } from '../../../src/errors.ts'

/** The table of nodes in memory, shared by the nodes of a test. It can be away, and it can forget. */
export class MemoryNodeTable implements NodeTable {
  rows = new Map<string, NodeRow>()
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

  async beat({ id, epoch, ...beat }: Beat): Promise<HeadSeen | undefined> {
    this.#assertHere()
    const row = this.rows.get(id)
    if (row === undefined || row.epoch !== epoch || row.state === 'dead') return undefined
    this.rows.set(id, { ...row, ...beat })
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

  async remove(id: string, epoch: number): Promise<void> {
    this.#assertHere()
    if (this.rows.get(id)?.epoch === epoch) this.rows.delete(id)
  }

  get #head(): HeadSeen {
    return { version: this.version, incarnation: this.incarnation, server: this.server }
  }

  #assertHere(): void {
    if (this.isAway) throw new CellError('object_store_unavailable', 'PostgreSQL is away.')
  }
}
