import type { Fetch } from './client-options.ts'

/** Cells whose nodes are remembered. */
const CELLS_MAX = 10_000
const CELL = /\/v1\/databases\/([^/?]+)/
const OWNER_HEADER = 'cellstore-owner'

/**
 * Which nodes have the cells that were asked for, as the answers of other nodes have named them. A node is asked directly once it has
 * answered a question without a key; until then, and without an answer, its cells are asked for where all others are.
 */
export class Owners {
  readonly #baseUrl: string
  readonly #fetch: Fetch
  /** By cell, the one that was named longest ago first. */
  readonly #addresses = new Map<string, string>()
  /** Whether it can be reached; undefined while that is not known. */
  readonly #reachable = new Map<string, boolean | undefined>()

  constructor(baseUrl: string, fetch: Fetch) {
    this.#baseUrl = baseUrl.replace(/\/+$/, '')
    this.#fetch = fetch
  }

  /** Where to send what is for this URL. */
  directUrl(url: string): string {
    const address = this.#addresses.get(cellIn(url))
    return address !== undefined && this.#reachable.get(address) === true
      ? `${address}${url.slice(this.#baseUrl.length)}`
      : url
  }

  /** Notes who has answered in place of the node that was asked. */
  learn(url: string, { headers }: Response): void {
    const address = headers.get(OWNER_HEADER)
    const cell = cellIn(url)
    // What goes encrypted to one node does not go in the clear to another.
    const isFit =
      address !== null && /^https?:\/\/[^/]+$/.test(address) && !isDowngrade(this.#baseUrl, address)
    if (!isFit || cell === '') return
    this.#addresses.delete(cell)
    this.#addresses.set(cell, address)
    const [oldest] = this.#addresses.keys()
    if (this.#addresses.size > CELLS_MAX) this.#addresses.delete(oldest as string)
    if (!this.#reachable.has(address)) void this.#try(address)
  }

  /** The node could not be reached, or refused its work: its cells are asked for where all others are. */
  forget(url: string): void {
    const { origin } = new URL(url)
    this.#reachable.delete(origin)
    for (const [cell, address] of this.#addresses) if (address === origin) this.#addresses.delete(cell)
  }

  /** Nobody waits for it. */
  async #try(address: string): Promise<void> {
    this.#reachable.set(address, undefined)
    const isReachable = await this.#fetch(`${address}/healthz`, { redirect: 'manual' }).then(
      async (response) => {
        await response.body?.cancel()
        return response.ok
      },
      () => false,
    )
    this.#reachable.set(address, isReachable)
  }
}

function cellIn(url: string): string {
  return CELL.exec(url)?.[1] ?? ''
}

function isDowngrade(from: string, to: string): boolean {
  return from.startsWith('https:') && !to.startsWith('https:')
}
