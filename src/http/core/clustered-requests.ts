import { CellError, type CellErrorCode, isCellError } from '../../errors.ts'
import type { ClusterPeers } from '../forwarding/cluster-peers.ts'
import { Elsewhere, type Target } from '../forwarding/elsewhere.ts'
import type { Forwarding } from '../forwarding/forwarding.ts'
import { misdirected } from '../forwarding/misdirected.ts'
import type { Answer } from './action.ts'
import type { Permit } from './audience.ts'
import type { HttpRequest, HttpResponse } from './http-message.ts'
import { shuttingDown } from './problem.ts'
import type { Match } from './router.ts'

/** A request, and the resource that it names. */
export interface Asked {
  readonly request: HttpRequest
  readonly match: Match | undefined
  readonly requestId: string
  /** Of the catalog, as the request came; undefined without a cluster. */
  readonly catalogVersion: number | undefined
}

/** What a request is answered with, or refused. */
export type Outcome = HttpResponse | { error: unknown }

/** What another node may have made just now. */
const NOT_FOUND: readonly CellErrorCode[] = ['cell_not_found', 'account_not_found', 'api_key_not_found']
/** The same; or a name or room in a quota has become free there. */
const CHANGED_ELSEWHERE: readonly CellErrorCode[] = [...NOT_FOUND, 'name_taken', 'quota_exceeded']

/** PostgreSQL has moved to another machine, or was restarted, in about that time. */
const UNKNOWN_RETRY_MS = 5_000

export interface ClusteredRequestsParts {
  cluster: ClusterPeers
  forwarding: Forwarding
  isShuttingDown(): boolean
  /** @throws `unauthorized`, `account_suspended` */
  identify(request: HttpRequest): Permit
  /** Whether the request's key can be one, and the catalog has never had it. */
  isUnknownKey(request: HttpRequest): boolean
  /** Answers here, from the start. */
  answer(asked: Asked): Answer | Promise<Answer>
  respond(answer: Answer, asked: Asked): HttpResponse
}

/** What of a node's requests is different in a cluster: some are for other nodes, and no answer counts without a lease. */
export class ClusteredRequests {
  readonly #parts: ClusteredRequestsParts

  constructor(parts: ClusteredRequestsParts) {
    this.#parts = parts
  }

  /** What is another node's does not begin here. @returns undefined if it is this node's */
  elsewhere(asked: Asked): Promise<Outcome> | undefined {
    const { forwarding } = this.#parts
    const { match, request } = asked
    if (match === undefined) return undefined
    const target = forwarding.targetOf(match, request.method)
    const isOurs = target === undefined && forwarding.markOf(request.headers) !== 'wrong'
    return isOurs ? undefined : this.#elsewhere(target, asked)
  }

  /**
   * What has failed here may be another node's by now, or this node's replica of the catalog may lack something. Either way nothing has
   * run.
   */
  async goOn(error: unknown, asked: Asked): Promise<Outcome> {
    try {
      const target = targetOf(error, asked.match)
      if (target !== undefined && isWhole(asked)) return await this.#elsewhere(target, asked)
      if (mayDiffer(error, asked) && (await this.#parts.cluster.catchUp(asked.catalogVersion)))
        return await this.#again(asked, 'caught up')
      this.checkLease(asked)
      await this.#assertLacksNothing(error, asked)
      return { error }
    } catch (failure) {
      if (failure instanceof Elsewhere) return await this.#elsewhere(failure.target, asked)
      return { error: failure }
    }
  }

  /** What was done has to count: otherwise nothing of it goes out. @throws `not_serving` */
  checkLease({ match, request }: Pick<Asked, 'match' | 'request'>): void {
    if (match?.resource.actions.get(request.method)?.action.needsKey !== false)
      this.#parts.cluster.ownership.assertMayAnswer()
  }

  /** Has another node answer, unless that node has sent the request here: then it is told if this is the wrong one. */
  async #elsewhere(target: Target | undefined, asked: Asked): Promise<Outcome> {
    const { forwarding, isShuttingDown } = this.#parts
    const { request, requestId } = asked
    try {
      const mark = forwarding.markOf(request.headers)
      if (mark === undefined) {
        if (isShuttingDown()) throw shuttingDown()
        const accountId = (await this.#sender(asked)).accountId ?? ''
        const about = { path: pathFor(target as Target, asked), requestId, accountId }
        const answer = await forwarding.pass(target as Target, request, about)
        return answer === 'here' ? await this.#again(asked) : answer
      }
      const isHere = mark !== 'wrong' && target !== undefined && (await forwarding.arrives(target, mark))
      return isHere ? await this.#again(asked) : misdirected(forwarding.assignment, target, requestId)
    } catch (error) {
      return { error }
    }
  }

  /** Answers here after all. A cell that has just come may be newer than this node's replica of the catalog. */
  async #again(asked: Asked, replica?: 'caught up'): Promise<HttpResponse> {
    const { cluster, answer, respond } = this.#parts
    try {
      return respond(await answer(asked), asked)
    } catch (error) {
      this.checkLease(asked)
      if (replica === undefined && mayDiffer(error, asked) && (await cluster.catchUp(asked.catalogVersion)))
        return await this.#again(asked, 'caught up')
      await this.#assertLacksNothing(error, asked)
      throw error
    }
  }

  /** Who asks for what is elsewhere: strangers are refused here. @throws `unauthorized`, `account_suspended`, `not_serving` */
  async #sender(asked: Asked, replica?: 'caught up'): Promise<Permit> {
    const { cluster, identify } = this.#parts
    try {
      return identify(asked.request)
    } catch (error) {
      if (replica === undefined && isOfSender(error) && (await cluster.catchUp(asked.catalogVersion)))
        return await this.#sender(asked, 'caught up')
      cluster.ownership.assertMayAnswer()
      await this.#assertLacksNothing(error, asked)
      throw error
    }
  }

  /**
   * What was made elsewhere just before PostgreSQL went away is not missing: no cell, and no key. Call it after a catch-up.
   *
   * @param error that the request is about to be refused with
   * @throws `cluster_unavailable` if this node's replica may lack it
   */
  async #assertLacksNothing(error: unknown, { request }: Asked): Promise<void> {
    const { cluster, isUnknownKey } = this.#parts
    const isOfKey = isOfSender(error) && request.accountId === undefined && isUnknownKey(request)
    const isMissing = isOfKey || NOT_FOUND.some((code) => isCellError(error, code))
    if (isMissing && (await cluster.mayLackChanges()))
      throw unknown(isOfKey ? 'the API key' : 'what the request names')
  }
}

/** A body that was streamed has gone. */
function isWhole({ request }: Asked): boolean {
  return request.contentLength === 0 || request.read !== undefined
}

/** Whether a request may have another outcome once the catalog is newer. */
function mayDiffer(error: unknown, asked: Asked): boolean {
  if (isOfSender(error) && asked.request.accountId === undefined) return true
  return isWhole(asked) && CHANGED_ELSEWHERE.some((code) => isCellError(error, code))
}

/** A key may have been made at another node just now, or an account resumed. */
function isOfSender(error: unknown): boolean {
  return isCellError(error, 'unauthorized') || isCellError(error, 'account_suspended')
}

function unknown(what: string): CellError {
  return new CellError(
    'cluster_unavailable',
    `This node does not know ${what}. Another node may have made it a moment ago, and the PostgreSQL that would tell does not answer.`,
    { retryAfterMs: UNKNOWN_RETRY_MS },
  )
}

/** Whose the cell is of a request that has failed because it is not here. */
function targetOf(error: unknown, match: Match | undefined): Target | undefined {
  if (error instanceof Elsewhere) return error.target
  const isMoving = isCellError(error, 'cell_moving') && match?.resource.isOfCell === true
  return isMoving ? { cellId: match.segments[0] as string } : undefined
}

/** The path at the other node: an id in place of a name. */
function pathFor(target: Target, { request: { path, query }, match }: Asked): string {
  const [cell = ''] = match?.segments ?? []
  const isNamed = target !== 'creation' && match?.resource.isOfCell === true && target.cellId !== cell
  const id = isNamed ? path.replace(`/databases/${cell}/`, `/databases/${target.cellId}/`) : path
  return query === '' ? id : `${id}?${query}`
}
