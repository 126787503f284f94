import type { NodeRow } from './node-table.ts'

/** Where the other nodes are, as PostgreSQL has said of late. */
export class Addresses {
  readonly #self: string
  readonly #addresses = new Map<string, string>()

  constructor(self: string) {
    this.#self = self
  }

  /** @returns whether that is new */
  know(nodes: readonly Pick<NodeRow, 'id' | 'address'>[]): boolean {
    const unknown = nodes.filter(
      ({ id, address }) => id !== this.#self && this.#addresses.get(id) !== address,
    )
    for (const { id, address } of unknown) this.#addresses.set(id, address)
    return unknown.length > 0
  }

  /** Whether it is not known where one of these nodes is. */
  lacks(ids: readonly string[]): boolean {
    return ids.some((id) => id !== this.#self && !this.#addresses.has(id))
  }

  get(id: string): string | undefined {
    return this.#addresses.get(id)
  }

  get ids(): string[] {
    return [...this.#addresses.keys()]
  }
}
