import { randomUUID } from 'node:crypto'
import { channels, type RequestTrace, traced } from '../../base/async/channels.ts'
import type { Clock } from '../../base/clock.ts'
import { isCellId } from '../../base/files/store-paths.ts'
import { isSilent } from '../../base/log.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import { CellError, type CellErrorCode, isCellError } from '../../errors.ts'
import type { CellService } from '../../service/cell-service.ts'
import { InProcessService } from '../../service/in-process-service.ts'
import { CellStore } from '../../store/cell-store.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import { isSqliteType } from '../body/file-body.ts'
import { ReadableBody } from '../body/readable-body.ts'
import { checkEncoding, type JsonBody, readJson } from '../body/request-body.ts'
import type { ClusterPeers, InternalRoutes } from '../forwarding/cluster-peers.ts'
import { Forwarding } from '../forwarding/forwarding.ts'
import { ListedElsewhere, listedRoute } from '../forwarding/listed-elsewhere.ts'
import { OWNER_HEADER } from '../forwarding/mark.ts'
import {
  type AccessLogger,
  DEFAULT_HTTP_LIMITS,
  type HandlerOptions,
  type HttpLimits,
  type HttpLogger,
  REQUEST_DEADLINE_MS_DEFAULT,
  warningLogger,
} from '../handler-options.ts'
import { hranaProblem, isHranaPath, lacksSlash } from '../hrana/hrana-problem.ts'
import { type HranaStream, HranaStreams } from '../hrana/hrana-streams.ts'
import { servedDocument } from '../openapi/served-document.ts'
import { BackupCharges } from '../quotas/backup-charges.ts'
import { KeptBackups } from '../quotas/kept-backups.ts'
import { BodyCharge, MemoryBudgets, type MemoryUse, UnsentCharge } from '../quotas/memory-budgets.ts'
import { OpenStreams } from '../quotas/open-streams.ts'
import { RateLimiter } from '../quotas/rate-limiter.ts'
import { StoredBytesQuota } from '../quotas/stored-bytes-quota.ts'
import { BegunRestores } from '../routes/begun-restores.ts'
import { lookAtCells } from '../routes/cell-actions.ts'
import type { NodeView } from '../routes/node/node-view.ts'
import { RequestCounts, SLOW_MS } from '../routes/node/request-counts.ts'
import type { Action, Answer, Call, HttpContext } from './action.ts'
import { type Audience, isUnknownKey, Permit, TENANTS } from './audience.ts'
import { type Asked, ClusteredRequests, type Outcome } from './clustered-requests.ts'
import { Cors } from './cors.ts'
import {
  bodyBytes,
  type HttpRequest,
  type HttpResponse,
  NOT_MODIFIED,
  RequestAborted,
  withCommonHeaders,
} from './http-message.ts'
import { problemResponse, shuttingDown } from './problem.ts'
import { checkScope, type RouteScope } from './route-scopes.ts'
import { type Match, Router } from './router.ts'

export interface ApplicationOptions extends HandlerOptions {
  /** Where requests are counted; several applications can share it. */
  counts?: RequestCounts | undefined
  /** What the store's owner, and a key with the access owner, may ask of the whole node. Undefined in a program that serves handlers of its own. */
  node?: NodeView | undefined
  /** The other nodes; undefined: this one has all cells. */
  cluster?: ClusterPeers | undefined
}

/** A refusal counts as so many bytes: it costs nearly as much as an answer, and after one of a body the connection may close. */
const REFUSED_BYTES = 15_360

interface Answered {
  requestId: string
  status: number
  /** Of a refusal. */
  code: CellErrorCode | undefined
  ms: number
  /** Where the node is that has answered in place of this one. */
  owner: string | undefined
}

const NO_BODY: JsonBody = {}

/** Whose reads are of the catalog. */
const OF_CATALOG: readonly RouteScope[] = ['account:read', 'owner']

/**
 * The HTTP interface, whatever carries it. Its checks come in one order, which the contract fixes: key, route, method,
 * media type, length, JSON, ownership, fields, and then what the operation itself finds.
 */
export class Application {
  readonly #context: HttpContext
  readonly #audience: Audience
  readonly #router: Router
  readonly #logger: HttpLogger
  readonly #shutdown: AbortSignal | undefined
  readonly #rates: RateLimiter
  readonly #memory: MemoryBudgets
  readonly #accessLogger: AccessLogger | undefined
  readonly #cors: Cors
  /** Undefined: this node has all cells. */
  readonly #forwarding: Forwarding | undefined
  readonly #clustered: ClusteredRequests | undefined
  readonly clock: Clock
  readonly counts: RequestCounts

  constructor(store: CellDirectory, options: ApplicationOptions, audience = TENANTS) {
    const limits = { ...DEFAULT_HTTP_LIMITS, ...audience.limits, ...definedOnly(options.limits ?? {}) }
    this.#audience = audience
    this.#router = new Router(audience.routes)
    const { quotas } = store.settings
    const storedBytes = audience === TENANTS ? new StoredBytesQuota(quotas.bytesMax, store) : undefined
    const unbounded = options.service ?? inProcess(store, options, limits)
    const service = storedBytes?.within(unbounded) ?? unbounded
    this.#context = {
      store,
      service,
      limits,
      storedBytes,
      backupCharges: new BackupCharges(quotas, store.clock),
      restores: new BegunRestores(store.clock),
      streams: new OpenStreams(limits.streams, options.shutdown),
      hrana: new HranaStreams(store.clock, (stream) => void rollBack(service, stream)),
      show: audience.show,
      isShuttingDown: () => this.shuttingDown,
      problemOf: (error, method, route, requestId) =>
        JSON.parse(this.#refusal(error, { method }, route, requestId).body),
      keptBackups:
        quotas.backupsMax === undefined
          ? undefined
          : new KeptBackups(quotas.backupsMax, store.requestedBackups, service, store.clock),
      openApi: servedDocument(),
      node: options.node,
      cluster: options.cluster,
      listed: options.cluster && new ListedElsewhere(options.cluster, store.clock),
    }
    store.apiKeys.changed.listen(this.#context.streams.check)
    this.counts = options.counts ?? new RequestCounts()
    this.#accessLogger = options.accessLogger
    this.#cors = new Cors(options.corsOrigins)
    this.clock = store.clock
    this.#logger = options.logger ?? (isSilent(store.settings.log) ? warningLogger : store.settings.log)
    this.#shutdown = options.shutdown
    this.#memory = new MemoryBudgets(limits.memory)
    this.#rates = new RateLimiter(options.rate, store.clock, (id) => store.accounts.quotasOf(id))
    const { cluster, shutdown } = options
    if (cluster === undefined) return
    const { clock, counts } = this
    const forwarding = new Forwarding(cluster, { clock, counts, memory: this.#memory, shutdown })
    this.#forwarding = forwarding
    this.#clustered = new ClusteredRequests({
      cluster,
      forwarding,
      isShuttingDown: () => this.shuttingDown,
      identify: (request) => this.#permit(request),
      isUnknownKey: (request) => isUnknownKey(request, this.#context.store),
      answer: (asked) => this.#answer(asked),
      respond: (answer, asked) => this.#respond(answer, asked),
    })
  }

  get audience(): Audience {
    return this.#audience
  }

  /** True from when no new request is taken; connections should end with the answers that are still under way. */
  get shuttingDown(): boolean {
    return this.#shutdown?.aborted ?? false
  }

  /** What other nodes may ask of the HTTP interface itself. */
  get internalRoutes(): InternalRoutes {
    return listedRoute((ids) => lookAtCells(this.#context.store, ids))
  }

  /** Ends what other nodes have been asked for. */
  close(): void {
    this.#forwarding?.close()
    this.#context.listed?.close()
  }

  /** Whether another node of the cluster has sent the request here. */
  isSentOn({ headers }: Pick<HttpRequest, 'headers'>): boolean {
    const mark = this.#forwarding?.markOf(headers)
    return mark !== undefined && mark !== 'wrong'
  }

  /** Answers a request; never rejects. */
  handle(request: HttpRequest): Promise<HttpResponse> {
    const requestId = requestIdOf(request.header('x-request-id'))
    const match = this.#router.match(request.path)
    const trace = () => ({ requestId, method: request.method, route: match?.resource.path ?? null })
    return traced<RequestTrace, HttpResponse>(channels.request, trace, (requestTrace) =>
      this.#handle(request, match, requestId, requestTrace),
    )
  }

  async #handle(
    request: HttpRequest,
    match: Match | undefined,
    requestId: string,
    requestTrace: RequestTrace | undefined,
  ): Promise<HttpResponse> {
    const startedAt = this.clock.monotonic()
    const catalogVersion = this.#context.cluster?.catalogVersion
    const asked: Asked = { request, match, requestId, catalogVersion }
    let outcome: Outcome
    try {
      const preflight = this.#cors.preflight(request)
      if (preflight !== undefined) outcome = withCommonHeaders(preflight, requestId)
      else {
        const begun = await (this.#clustered?.elsewhere(asked) ?? this.#answer(asked))
        outcome = isAnswer(begun) ? this.#respond(begun, asked) : begun
      }
    } catch (error) {
      outcome = this.#clustered === undefined ? { error } : await this.#clustered.goOn(error, asked)
    }
    let response: HttpResponse
    let code: CellErrorCode | undefined
    if ('error' in outcome) {
      const { error } = outcome
      const route = match?.resource.path ?? null
      const refusal = this.#refusal(error, request, route, requestId)
      code = refusal.code
      // Who is refused so asks again at once, perhaps on hundreds of connections.
      if (request.accountId !== undefined && isToTryAgain(error))
        await this.#context.store.turns.nextSmall(request.accountId, REFUSED_BYTES)
      response = withCommonHeaders(refusal, requestId)
    } else response = outcome
    this.#cors.expose(request, response)
    const ms = this.clock.monotonic() - startedAt
    this.#note(request, match, {
      requestId,
      status: response.status,
      code,
      ms,
      owner: response.headers[OWNER_HEADER],
    })
    if (requestTrace !== undefined)
      Object.assign(requestTrace, { accountId: request.accountId, status: response.status })
    return response
  }

  #note({ method, accountId }: HttpRequest, match: Match | undefined, answered: Answered): void {
    const { requestId, status, code, ms, owner } = answered
    const route = match?.resource.path ?? null
    const isKnown = match?.resource.actions.has(method) === true
    // What another node has answered, it has counted.
    if (owner === undefined) this.counts.answered(route, method, isKnown, status, ms)
    if (code !== undefined) this.counts.refused(code)
    if (this.#accessLogger === undefined && ms < SLOW_MS) return
    const [id] = match?.segments ?? []
    const cellId = route?.includes('/databases/{id}') === true && isCellId(id ?? '') ? id : undefined
    if (owner === undefined)
      this.counts.noteSlow({ at: this.clock.now(), ms, route, status, accountId, cellId, requestId })
    const line = {
      requestId,
      accountId,
      cellId,
      method: isKnown ? method : 'other',
      route,
      status,
      code,
      owner,
    }
    this.#accessLogger?.debug({ ...line, ms: Math.round(ms * 100) / 100 }, 'request')
  }

  /** Bytes of request bodies, and of answers that clients have not taken. */
  get memory(): MemoryUse {
    return this.#memory.use
  }

  /** What a request is refused with. Reports a bug of ours. */
  #refusal(
    error: unknown,
    { method, path = '' }: { method: string; path?: string },
    route: string | null,
    requestId: string,
  ) {
    const { show } = this.#audience
    // Nobody waits for the answer to a request that was cut off, and nothing is wrong here.
    const isBug = !(error instanceof RequestAborted) && show(error).code === 'internal'
    if (isBug) this.reportBug(error, { requestId, method, route })
    return (isHranaPath(path) ? hranaProblem : problemResponse)(error, requestId, show)
  }

  /**
   * Charges an answer, before it is handed over, until its client has taken it.
   *
   * @returns undefined if there is no room for it; then the connection has to end
   */
  reserve({ accountId = '' }: HttpRequest, { body }: Pick<HttpResponse, 'body'>): UnsentCharge | undefined {
    const bytes = body instanceof ReadableBody ? 0 : bodyBytes(body)
    try {
      return new UnsentCharge(this.#memory.unsent, accountId, bytes)
    } catch {
      return undefined
    }
  }

  /** @param fields never a path, which could hold a tenant's key */
  reportBug(error: unknown, fields: Record<string, unknown>): void {
    this.#logger.error({ ...fields, err: error }, 'A request failed with an internal error.')
  }

  /** Not async: most requests wait for one thing only, and each further promise is a cost of every request. */
  #answer({ request, match, requestId }: Asked): Answer | Promise<Answer> {
    if (this.shuttingDown) throw shuttingDown()
    const found = match?.resource.actions.get(request.method)
    const permit = found?.action.needsKey === false ? undefined : this.#identify(request)
    const { action, scope: needed } = found ?? refuseRoute(match, request.path)
    const accountId = permit === undefined ? '' : permit.accountId
    const scope = permit?.scope
    if (scope !== undefined) checkScope(scope, needed)
    const segments = match?.segments ?? []
    const call = { context: this.#context, request, requestId, segments, accountId, scope, permit }
    if (this.#context.cluster !== undefined && request.method === 'GET' && OF_CATALOG.includes(needed))
      return this.#catchUpAndPerform(this.#context.cluster, match, action, call)
    if (action.receive !== undefined && isSqliteType(request.header('content-type'))) {
      checkEncoding(request)
      return action.receive(call)
    }
    if (!action.takesBody) return action.perform(call, NO_BODY)
    return this.#readAndPerform(action, call)
  }

  /** A list has what was made at any node before it was asked for. */
  async #catchUpAndPerform(
    cluster: ClusterPeers,
    match: Match | undefined,
    action: Action,
    call: Call,
  ): Promise<Answer> {
    if (match?.resource.isOfCell !== true) await cluster.catchUp()
    call.permit?.check()
    return await action.perform(call, NO_BODY)
  }

  async #readAndPerform(action: Action, call: Call): Promise<Answer> {
    const { request, accountId, permit } = call
    const charge = new BodyCharge(this.#memory.bodies, accountId ?? '')
    const { turns } = this.#context.store
    try {
      const body = await readJson(request, {
        limits: this.#context.limits,
        passesOn: action.passesOn === true,
        onBytes: charge.grow,
        turn: () => turns.next(accountId ?? ''),
      }).catch(async (refusal) => {
        // Hundreds of bodies that are refused are as much work for the loop as hundreds of small ones.
        if (!isToTryAgain(refusal)) await turns.nextSmall(accountId ?? '', REFUSED_BYTES)
        throw refusal
      })
      permit?.check()
      return await action.perform(call, body)
    } finally {
      charge.release()
    }
  }

  /** Whose request it is, if they may make one now. @throws `unauthorized`, `account_suspended`, `rate_limited` */
  #identify(request: HttpRequest): Permit {
    const permit = this.#permit(request)
    const { accountId } = permit
    if (accountId === undefined) return permit
    this.#rates.take(accountId)
    this.#memory.checkUnsent(accountId)
    return permit
  }

  /** @throws `unauthorized`, `account_suspended` */
  #permit(request: HttpRequest): Permit {
    const { store, cluster } = this.#context
    const permit = new Permit(this.#audience, request, store, cluster?.ownership)
    // Before the refusals that follow: each is the account's.
    request.accountId = permit.accountId
    return permit
  }

  /** @throws `not_serving` */
  #respond(answer: Answer, asked: Asked): HttpResponse {
    try {
      this.#clustered?.checkLease(asked)
    } catch (error) {
      if ('file' in answer) void answer.file.discard()
      else answer.stream?.close()
      throw error
    }
    return respond(answer, asked.requestId)
  }
}

/** The transaction of a stream that nobody can use any more. Its own bounds end it, if this does not. */
async function rollBack(service: CellService, { id, cellId }: HranaStream): Promise<void> {
  try {
    await service.execute(cellId, { op: 'hold', step: 'rollback', hold: { id, isOpen: true } })
  } catch {
    // It is over, or the store is closed.
  }
}

function inProcess(store: CellDirectory, options: HandlerOptions, limits: HttpLimits): InProcessService {
  if (!(store instanceof CellStore)) throw new TypeError('Without the service option, a CellStore is needed.')
  return new InProcessService(store, {
    restoreWaitMs: options.requestDeadlineMs ?? REQUEST_DEADLINE_MS_DEFAULT,
    bounds: limits,
    sqlPolicy: options.sqlPolicy,
    slowMs: options.slowMs,
  })
}

function isAnswer(begun: Answer | Outcome): begun is Answer {
  return 'json' in begun || 'file' in begun
}

function isToTryAgain(error: unknown): boolean {
  return isCellError(error, 'rate_limited') || isCellError(error, 'busy')
}

/** @throws `not_found`, `method_not_allowed` */
function refuseRoute(match: Match | undefined, path: string): never {
  if (match === undefined) {
    throw new CellError('not_found', `There is no such route.${hintFor(path)}`)
  }
  const allowed = [...match.resource.actions.keys()]
  throw new CellError('method_not_allowed', `This path takes ${allowed.join(', ')}.`, { allowed })
}

function hintFor(path: string): string {
  if (lacksSlash(path)) return ' End the URL of the database with a slash: …/v1/databases/<id or name>/'
  return path.includes('/kv/') ? ' Write a slash in a key as %2F.' : ''
}

function respond(answer: Answer, requestId: string): HttpResponse {
  const { status, headers } = answer
  if ('file' in answer)
    return withCommonHeaders({ status, headers: { ...headers }, body: answer.file }, requestId)
  const type = status === NOT_MODIFIED ? undefined : { 'Content-Type': 'application/json' }
  return withCommonHeaders(
    { status, headers: { ...type, ...headers }, body: answer.json, stream: answer.stream },
    requestId,
  )
}

/** Ids of common tracing systems. Anything else could smuggle markup or line breaks into logs and pages. */
const SANE = /^[A-Za-z0-9._:/+=@-]{1,128}$/
const API_KEY = /_sk_/

/** The id that the client gave its request, if it is well-formed; otherwise a new one. */
function requestIdOf(inbound: string | undefined): string {
  // A request id goes to the log, and an API key must not (invariant 12).
  return inbound !== undefined && SANE.test(inbound) && !API_KEY.test(inbound) ? inbound : randomUUID()
}
