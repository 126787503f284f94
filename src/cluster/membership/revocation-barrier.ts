import { type Clock, delay } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import type { NodeRow, NodeTable } from './node-table.ts'

const LOOK_EVERY_MS = 100
const RETRY_MS = 1_000

/** A row of the catalog as a change has left it. */
export interface ChangedRow {
  table: string
  /** JSON; null if it was deleted. */
  content: string | null
}

interface BarrierParts {
  self: string
  table: Pick<NodeTable, 'list'>
  clock: Clock
  /** How long a silent node is waited for: by then it is taken over. Milliseconds. */
  withinMs: number
  /** Asks a node for the version that it has once it has that one. @throws if it does not answer in time */
  confirm(node: NodeRow, version: number): Promise<number>
  /** @throws `not_serving` without a lease */
  mayAnswer(): void
}

/**
 * A revocation is answered once no node admits the key any more (C7): each node has confirmed its version, or it was taken over and its
 * leases have ended. A dead node may still answer until then, so only one whose row is gone is waited for no longer.
 */
export class RevocationBarrier {
  readonly #parts: BarrierParts

  constructor(parts: BarrierParts) {
    this.#parts = parts
  }

  /** For each change that was committed: waits if it admits less than before. @throws as {@link pass} */
  async committed(version: number, rows: readonly ChangedRow[]): Promise<void> {
    if (!isRevocation(rows)) return
    await this.pass(version)
    this.#parts.mayAnswer()
  }

  /** @throws `not_serving` if a node does neither in time: the change is made, and that node may not know it */
  async pass(version: number): Promise<void> {
    const { self, table, clock, withinMs } = this.#parts
    const deadline = clock.monotonic() + withinMs
    const { nodes } = await table.list()
    const others = nodes.filter(({ id }) => id !== self)
    const late = await Promise.all(others.map((node) => this.#untilSeen(node, version, deadline)))
    const silent = late.filter((node) => node !== undefined)
    if (silent.length === 0) return
    throw new CellError(
      'not_serving',
      `The change is made, but ${silent.map(({ address }) => address).join(', ')} did not confirm it and may not know it yet. Send the request again to be sure.`,
      { retryAfterMs: RETRY_MS },
    )
  }

  /** @returns the node if it is late */
  async #untilSeen(node: NodeRow, version: number, deadline: number): Promise<NodeRow | undefined> {
    const { table, clock, confirm } = this.#parts
    for (;;) {
      const seen = await confirm(node, version).catch(() => 0)
      if (seen >= version) return undefined
      const row = await table.list().then(
        ({ nodes }) => nodes.find(({ id }) => id === node.id),
        () => node,
      )
      if (row === undefined || row.seenVersion >= version) return undefined
      if (clock.monotonic() >= deadline) return node
      await delay(clock, LOOK_EVERY_MS)
    }
  }
}

/** Whether what a change has left admits less than before: a key that was revoked, replaced or bounded, or an account that was suspended. */
export function isRevocation(rows: readonly ChangedRow[]): boolean {
  return rows.some(({ table, content }) => {
    if (table !== 'api_keys' && table !== 'accounts') return false
    if (content === null) return true
    const { revoked_at, retires_at, expires_at, suspended_at } = JSON.parse(content) as Record<
      string,
      unknown
    >
    return [revoked_at, retires_at, expires_at, suspended_at].some(
      (each) => each !== undefined && each !== null,
    )
  })
}
