import type { Clock } from '../base/clock.ts'

/** A call to another node, which proves to it that this one is of its cluster. */
export interface PeerCalls {
  /** @throws `node_unreachable` if no answer comes in time; what the other node has thrown */
  call(address: string, name: string, body: object, options: { timeoutMs: number }): Promise<unknown>
}

const PING_MS = 1_000
/** A node looks for another one's address in less. */
const REACH_MS = 2_500
const CONFIRM_MS = 1_000
const STATUS_MS = 1_500
const COMMAND_MS = 5_000
/** Meanwhile the cells are served where they are. What is not built by then is restored when it is asked for. */
const PREPARE_MS = 10_000
/** Of one move: the ids have to fit in a call. */
const PREPARED_MAX = 1_000

/** What a node says of itself. */
export interface PingAnswer {
  node_id: string
  /** It answers requests. */
  serving: boolean
  /** It takes ranges of others. */
  taking: boolean
}

/** What nodes ask of each other: `PeerRoutes` answers. */
export class Peers {
  readonly #calls: PeerCalls

  constructor(calls: PeerCalls) {
    this.#calls = calls
  }

  async ping(address: string): Promise<PingAnswer> {
    return (await this.#calls.call(address, 'ping', {}, { timeoutMs: PING_MS })) as PingAnswer
  }

  /** What the node itself says; undefined if it does not answer, or if another one does. */
  async pingNode({ id, address }: { id: string; address: string }): Promise<PingAnswer | undefined> {
    const answer = await this.ping(address).catch(() => undefined)
    return answer?.node_id === id ? answer : undefined
  }

  /** Whether a node reaches another one at its address. */
  async reaches(through: string, address: string, nodeId: string): Promise<boolean> {
    const body = { address, node_id: nodeId }
    const answer = await this.#calls.call(through, 'reach', body, { timeoutMs: REACH_MS })
    return (answer as { reached: boolean }).reached
  }

  /** @returns the version of the catalog that the node has by then */
  async confirm(address: string, version: number): Promise<number> {
    const answer = await this.#calls.call(address, 'catch-up', { version }, { timeoutMs: CONFIRM_MS })
    return (answer as { version: number }).version
  }

  async status<Status>(address: string): Promise<Status> {
    return (await this.#calls.call(address, 'status', {}, { timeoutMs: STATUS_MS })) as Status
  }

  /** Has the node build cells that are about to come to it. A node that does not do it, or not in time, is not waited for. */
  async prepare(address: string | undefined, cells: readonly string[]): Promise<void> {
    if (address === undefined || cells.length === 0) return
    const body = { cells: cells.slice(0, PREPARED_MAX) }
    await this.#calls.call(address, 'prepare', body, { timeoutMs: PREPARE_MS }).catch(() => {})
  }

  /** Has a node begin something that goes on after its answer. */
  async begin(address: string, command: 'drain' | 'balance' | 'leave'): Promise<void> {
    await this.#calls.call(address, command, {}, { timeoutMs: COMMAND_MS })
  }
}

/** Builds what `prepare` asks for. Resolves when the node that asks has stopped waiting, at the latest. */
export async function prepareAsked(
  body: unknown,
  clock: Clock,
  prepare: (cells: readonly string[], signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const late = new AbortController()
  const timer = clock.setTimer(() => late.abort(), PREPARE_MS)
  await prepare((body as { cells: string[] }).cells, late.signal).finally(() => timer.cancel())
}
