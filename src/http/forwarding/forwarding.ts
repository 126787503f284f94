import type { Clock } from '../../base/clock.ts'
import { isCellId } from '../../base/files/store-paths.ts'
import { CellError } from '../../errors.ts'
import { type HttpRequest, type HttpResponse, RequestAborted } from '../core/http-message.ts'
import type { Match } from '../core/router.ts'
import { BodyCharge, type MemoryBudgets } from '../quotas/memory-budgets.ts'
import type { RequestCounts } from '../routes/node/request-counts.ts'
import type { ClusterPeers, Peer } from './cluster-peers.ts'
import type { Target } from './elsewhere.ts'
import { MARK_HEADER, type Mark, MarkReader, proofFor } from './mark.ts'
import { passOn, REPEATABLE_BYTES } from './pass-on.ts'
import { PeerConnections, PeerLost } from './peer-connections.ts'

/** How long a request waits for a cell that moves. */
const WAIT_MS = 1_000
const RETRY_AFTER_MS = 1_000
/** Who gave a cell away knows that before PostgreSQL does: others look for it again after so long. */
const LEARN_MS = 50
const COLLECTION = '/v1/databases'

export interface ForwardingParts {
  clock: Clock
  counts: RequestCounts
  memory: MemoryBudgets
  shutdown: AbortSignal | undefined
}

/** Sends requests to the nodes that have their cells: in one hop, and again only if nothing has run. */
export class Forwarding {
  readonly #cluster: ClusterPeers
  readonly #parts: ForwardingParts
  readonly #connections: PeerConnections
  readonly #marks: MarkReader
  /** Of this node to others, by their ids. */
  readonly #proofs = new Map<string, string>()
  /** Called at the next change of who has what. */
  readonly #waiting = new Set<() => void>()

  constructor(cluster: ClusterPeers, parts: ForwardingParts) {
    this.#cluster = cluster
    this.#parts = parts
    this.#connections = new PeerConnections(parts.clock)
    this.#marks = new MarkReader(cluster)
    cluster.changed.listen(() => {
      for (const wake of this.#waiting) wake()
    })
  }

  /** The number of the newest one that this node knows. */
  get assignment(): number {
    return this.#cluster.assignment
  }

  /** Requests that wait for another node's answer. */
  get underway(): number {
    return this.#connections.underway
  }

  /** Whom the request is for, if that is not this node. Every request asks. */
  targetOf({ resource, segments }: Match, method: string): Target | undefined {
    if (resource.isOfCell) {
      const cellId = segments[0] as string
      return this.#cluster.ownership.isHere(cellId) || !isCellId(cellId) ? undefined : { cellId }
    }
    const creates = method === 'POST' && resource.path === COLLECTION
    return creates && this.#cluster.creator() !== 'here' ? 'creation' : undefined
  }

  /**
   * Sends the request on, with its body as it came.
   *
   * @param path below the peer's address, with the query
   * @param accountId who is charged for its body
   * @returns `here` if this node has the cell by now
   * @throws `cell_moving`, after which nothing has run; `not_serving`; `RequestAborted`
   */
  async pass(
    target: Target,
    request: HttpRequest,
    { path, requestId, accountId }: { path: string; requestId: string; accountId: string },
  ): Promise<HttpResponse | 'here'> {
    const { clock, counts, memory } = this.#parts
    const startedAt = clock.monotonic()
    const charge = new BodyCharge(memory.bodies, accountId)
    const read = async () => {
      const { read, contentLength = Number.POSITIVE_INFINITY } = request
      if (read !== undefined || contentLength === 0 || contentLength > REPEATABLE_BYTES) return read
      await request.readBody(REPEATABLE_BYTES, charge.grow)
      return request.read
    }
    try {
      const answer = await this.#pass(target, { request, path, requestId }, read)
      if (answer !== 'here') counts.forwarded('answered', clock.monotonic() - startedAt)
      return answer
    } catch (error) {
      if (!(error instanceof RequestAborted)) {
        const outcome = error instanceof CellError && error.code === 'not_serving' ? 'lost' : 'refused'
        counts.forwarded(outcome, clock.monotonic() - startedAt)
      }
      throw error
    } finally {
      charge.release()
    }
  }

  async #pass(
    target: Target,
    asked: { request: HttpRequest; path: string; requestId: string },
    read: () => Promise<Uint8Array | undefined>,
  ): Promise<HttpResponse | 'here'> {
    const deadline = this.#parts.clock.monotonic() + WAIT_MS
    let wanted = target
    for (let mayRepeat = true, tried = 0; ; mayRepeat = false) {
      const peer = await this.#settled(wanted, deadline)
      if (peer === undefined) throw moving('The cell is on its way to another node.')
      if (peer === 'here') return 'here'
      const known = this.#cluster.assignment
      let theirs = known
      // Somebody else's turn: each assignment is tried once.
      if (known > tried) mayRepeat = true
      tried = known
      try {
        const { shutdown } = this.#parts
        const mark = `${known} ${this.#proofFor(peer)}`
        const answer = await passOn({ ...asked, peer, mark, body: await read(), shutdown }, this.#connections)
        if (!('hasBody' in answer)) return answer
        if (!mayRepeat || answer.hasBody) throw moving('The cell is on its way to another node.')
        if (answer.cellId !== undefined) wanted = { cellId: answer.cellId }
        theirs = answer.assignment
      } catch (error) {
        if (!(error instanceof PeerLost)) throw error
        const isSafe = asked.request.method === 'GET' || asked.request.method === 'HEAD'
        if (error.mayHaveRun && !(isSafe && mayRepeat)) throw lost(error)
        if (!mayRepeat) throw moving('The node that has the cell can’t be reached.')
      }
      await this.#learn(theirs, deadline)
    }
  }

  #proofFor(peer: Peer): string {
    let proof = this.#proofs.get(peer.nodeId)
    if (proof === undefined) {
      proof = proofFor(peer, this.#cluster.secret)
      this.#proofs.set(peer.nodeId, proof)
    }
    return proof
  }

  /** Catches up, with that assignment if it comes before the deadline. */
  async #learn(assignment: number, deadline: number): Promise<void> {
    for (;;) {
      await this.#cluster.catchUp()
      const leftMs = deadline - this.#parts.clock.monotonic()
      if (this.#cluster.assignment >= assignment || leftMs <= 0) return
      await this.#change(Math.min(LEARN_MS, leftMs))
    }
  }

  /** The mark of a request that another node has sent on; `wrong`: it is not of this cluster, or not for this node. */
  markOf({ [MARK_HEADER]: header }: HttpRequest['headers']): Mark | 'wrong' | undefined {
    return header === undefined ? undefined : (this.#marks.read(String(header)) ?? 'wrong')
  }

  /**
   * Waits for a cell that is not here, on behalf of a node that took this one for its owner.
   *
   * @returns whether it is here now
   */
  async arrives(target: Target, { assignment }: Mark): Promise<boolean> {
    const deadline = this.#parts.clock.monotonic() + WAIT_MS
    if (assignment > this.#cluster.assignment) await this.#cluster.catchUp()
    return (await this.#settled(target, deadline)) === 'here'
  }

  /** Ends what is under way. */
  close(): void {
    this.#connections.close()
  }

  /** Who has the cell, once somebody has. @returns undefined if nobody has it at the deadline */
  async #settled(target: Target, deadline: number): Promise<Peer | 'here' | undefined> {
    for (;;) {
      const owner = this.#find(target)
      if (owner !== 'moving') return owner
      const leftMs = deadline - this.#parts.clock.monotonic()
      if (leftMs <= 0) return undefined
      await this.#change(leftMs)
    }
  }

  #find(target: Target): Peer | 'here' | 'moving' {
    if (target === 'creation') return this.#cluster.creator() ?? 'moving'
    return this.#cluster.ownership.ownerOf(target.cellId)
  }

  /** Resolves at the next change of who has what, or after the time. */
  async #change(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = this.#parts.clock.setTimer(resolve, ms)
    this.#waiting.add(resolve)
    await promise
    this.#waiting.delete(resolve)
    timer.cancel()
  }
}

function moving(why: string): CellError {
  return new CellError('cell_moving', `${why} Nothing was done: try again.`, { retryAfterMs: RETRY_AFTER_MS })
}

function lost(cause: unknown): CellError {
  return new CellError(
    'not_serving',
    'The node that has the cell was lost before it had answered. Whether it has carried out the request is not known.',
    { cause, retryAfterMs: RETRY_AFTER_MS },
  )
}
