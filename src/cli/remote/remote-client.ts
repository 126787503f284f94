import { Readable } from 'node:stream'
import type { BackupKind, BackupOptions } from '../../backup/versions/backup-types.ts'
import { type Clock, delay } from '../../base/clock.ts'
import {
  ArgumentError,
  type Client,
  createClient,
  type Fetch,
  isProblem,
  Redirected,
  type Row,
  type SqlParam,
} from '../../client/index.ts'
import { fetchForLong } from '../../client/long-calls.ts'
import { CellError } from '../../errors.ts'
import type { RevokedKeyDocument } from '../../http/answers/api-key-answers.ts'
import type {
  BackupDocument,
  BackupPageDocument,
  RestoreDocument,
  RestorePlanDocument,
} from '../../http/answers/backup-answers.ts'
import type { CellSummaryDocument, DeletedCellDocument } from '../../http/answers/cell-answers.ts'
import type { SqlDocument } from '../../service/json/sql-answers.ts'
import {
  type BatchInput,
  type CallOptions,
  type CellDocument,
  type CellPageDocument,
  type CreateCellInput,
  type CreatedKeyDocument,
  type CreateKeyInput,
  type ImportCellInput,
  type KeyDocument,
  type ListCellsInput,
  onceRestored,
  type RestoreInput,
  type RotatedKeyDocument,
  type RotateKeyInput,
  type SqlInput,
  type StoreClient,
} from '../store-client.ts'
import { errorOfProblem } from '../terminal/report-error.ts'
import type { RemoteNode } from './remote-node.ts'

const NO_ROUTE =
  'The node does not know this command: it is another version of cellstore, or the URL is not where it serves.'
const REFUSED_KEY =
  'The node does not take the API key: it was revoked, or it is the key of another store. `cellstore keys create` on the node makes one.'
/** The client's words for an answer that is no problem document; what it was follows, and is not for a terminal. */
const NO_PROBLEM = /^The server answered \d+/
/** How often to ask how far a restore is. */
const RESTORE_POLL_MS = 500

/** What a command can ask of a remote node with the key of an account: the public interface, `/v1`, and nothing else. */
export class RemoteClient implements StoreClient {
  readonly #node: RemoteNode
  readonly #client: Client
  readonly #clock: Clock
  /** The `Link` of the newest answer: a listing of keys names its next page there. */
  #link = ''

  constructor(node: RemoteNode, clock: Clock) {
    this.#node = node
    this.#clock = clock
    this.#client = createClient({
      ...node,
      fetch: remoteFetch(node.baseUrl, (headers) => {
        this.#link = headers.get('link') ?? ''
      }),
      wait: async (ms, signal) => {
        await delay(clock, ms)
        signal?.throwIfAborted()
      },
    })
  }

  async createKey({ account, newAccount, name, ...scope }: CreateKeyInput): Promise<CreatedKeyDocument> {
    const { access, cell_ids, surface, expires_at, ...rest } = scope
    dropsNothing(rest)
    if (newAccount === true) throw onlyOwner('--new-account', 'Only the owner of a store makes accounts')
    refuseAccount(account)
    const fields = definedOnly({ access, cell_ids, surface, expires_at })
    return await this.#ask(() => this.#client.createApiKey({ name: name ?? null, ...fields }))
  }

  rotateKey({ id, grace_ms, expires_at, ...rest }: RotateKeyInput): Promise<RotatedKeyDocument> {
    dropsNothing(rest)
    const fields = definedOnly({ grace_ms, expires_at })
    return this.#ask(() => this.#client.rotateApiKey({ key_id: id, ...fields }))
  }

  async listKeys({ account }: { account?: string | undefined }): Promise<KeyDocument[]> {
    refuseAccount(account)
    const all: KeyDocument[] = []
    let cursor: string | undefined
    do {
      all.push(...(await this.#ask(() => this.#client.listApiKeys(pageAt(cursor)))))
      cursor = nextCursorOf(this.#link)
    } while (cursor !== undefined)
    return all
  }

  revokeKey({ id }: { id: string }): Promise<RevokedKeyDocument> {
    return this.#ask(() => this.#client.revokeApiKey({ key_id: id }))
  }

  async createCell(
    { account, name, from: cell_id, version, timestamp, ...rest }: CreateCellInput,
    { signal }: BackupOptions = {},
  ): Promise<CellDocument> {
    dropsNothing(rest)
    refuseAccount(account)
    const from = cell_id === undefined ? {} : { from: { cell_id, ...definedOnly({ version, timestamp }) } }
    const made = await this.#ask(() => this.#client.createCell({ name: name ?? null, ...from }, { signal }))
    return { ...made, backed_up_to: null, last_stored_at: null, last_proven: null }
  }

  async listCells({ account, name, deleted, cursor, ...rest }: ListCellsInput): Promise<CellPageDocument> {
    dropsNothing(rest)
    refuseAccount(account)
    const which = definedOnly({ name, deleted })
    return await this.#ask(() => this.#client.listCells({ ...which, ...pageAt(cursor) }))
  }

  renameCell({ cell, name }: { cell: string; name: string | null }): Promise<CellSummaryDocument> {
    return this.#ask(() => this.#client.renameCell({ id: cell, name }))
  }

  exportCell({ cell }: { cell: string }, { signal }: BackupOptions = {}): Promise<AsyncIterable<Uint8Array>> {
    return this.#ask(() => this.#client.exportCell({ id: cell }, { signal }))
  }

  async importCell(
    { account, name, file, ...rest }: ImportCellInput,
    { signal }: BackupOptions = {},
  ): Promise<CellDocument> {
    dropsNothing(rest)
    refuseAccount(account)
    const body = Readable.toWeb(Readable.from(file, { objectMode: false })) as ReadableStream<Uint8Array>
    const made = await this.#ask(() => this.#client.importCell({ file: body, name }, { signal }))
    return { ...made, backed_up_to: null, last_stored_at: null, last_proven: null }
  }

  deleteCell({ cell }: { cell: string }): Promise<DeletedCellDocument> {
    return this.#ask(() => this.#client.deleteCell({ id: cell }))
  }

  sql({ cell, sql, params }: SqlInput, options: CallOptions = {}): Promise<SqlDocument> {
    const args = { id: cell, sql, params: (params ?? null) as SqlParam[] | null }
    return onceRestored(() => this.#ask(() => this.#client.sql<Row>(args, options)), this.#clock, options)
  }

  async batch({ cell, operations }: BatchInput, options: CallOptions = {}): Promise<SqlDocument[]> {
    const run = () => this.#client.batch({ id: cell, operations: [...operations] }, options)
    const { results } = await onceRestored(() => this.#ask(run), this.#clock, options)
    return results as SqlDocument[]
  }

  backup(
    { cell, kind }: { cell: string; kind: BackupKind },
    { signal }: BackupOptions = {},
  ): Promise<BackupDocument> {
    const make = kind === 'snapshot' ? this.#client.backup : this.#client.backupIncremental
    return this.#ask(() => make({ id: cell }, { signal }))
  }

  /** Asks from time to time how far it is: a restore may take longer than what stands between waits for an answer. */
  async restore(
    { cell, version, timestamp, ...rest }: RestoreInput,
    { signal, onProgress }: BackupOptions = {},
  ): Promise<RestoreDocument> {
    dropsNothing(rest)
    const headers = { prefer: 'respond-async' }
    const args = { id: cell, ...definedOnly({ version, timestamp }) }
    const answer = await this.#ask(() => this.#client.restore(args, { signal, headers }))
    if ('restored' in answer) return restoredOf(answer)
    let status = answer
    for (;;) {
      if (status.result !== null) return status.result
      if (status.problem !== null) throw errorOfProblem(status.problem, NO_ROUTE)
      if (signal?.aborted)
        throw new CellError('shutting_down', 'Interrupted. The node goes on with the restore.')
      const { id, bytes_done: bytes, bytes_total: total, eta_ms: eta } = status
      if (total !== null) onProgress?.({ phase: 'download', bytes, total, etaMs: eta ?? undefined })
      await delay(this.#clock, RESTORE_POLL_MS)
      status = await this.#ask(() => this.#client.getRestore({ id: cell, restore_id: id }))
    }
  }

  async planRestore({ cell, version, timestamp, ...rest }: RestoreInput): Promise<RestorePlanDocument> {
    dropsNothing(rest)
    const args = { id: cell, ...definedOnly({ version, timestamp }), dry_run: true }
    const answer = await this.#ask(() => this.#client.restore(args))
    if ('objects' in answer) return answer
    throw new CellError('node_unreachable', NO_ROUTE)
  }

  listBackups({ cell, cursor }: { cell: string; cursor?: string | undefined }): Promise<BackupPageDocument> {
    return this.#ask(() => this.#client.listBackups({ id: cell, ...pageAt(cursor) }))
  }

  /** Runs a call, with the errors of the commands. */
  async #ask<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call()
    } catch (error) {
      if (isProblem(error, 'unauthorized')) throw new CellError('unauthorized', REFUSED_KEY)
      if (isProblem(error)) throw errorOfProblem(error.problem, NO_ROUTE)
      if (error instanceof SyntaxError || (error instanceof TypeError && NO_PROBLEM.test(error.message)))
        throw this.#strangeAnswer(error)
      if (error instanceof Redirected) throw new CellError('invalid_setting', error.message, { field: 'url' })
      if (error instanceof ArgumentError)
        throw new CellError(error.code, error.message, { field: error.field })
      // An id that can't stand in a path.
      if (error instanceof TypeError || error instanceof URIError)
        throw new CellError('invalid_request', error.message)
      throw error
    }
  }

  #strangeAnswer({ message }: Error): CellError {
    const [status = ''] = NO_PROBLEM.exec(message) ?? []
    const cause = status === '' ? undefined : new Error(`${status}.`)
    return new CellError(
      'node_unreachable',
      `What answered at ${this.#node.baseUrl} is no node of cellstore, or something stands before it.`,
      { cause },
    )
  }
}

function restoredOf(answer: RestoreDocument | RestorePlanDocument): RestoreDocument {
  if (answer.restored) return answer
  throw new CellError('node_unreachable', NO_ROUTE)
}

function pageAt(cursor: string | undefined): { cursor?: string } {
  return cursor === undefined ? {} : { cursor }
}

/** The cursor in a `Link` to the next page. */
function nextCursorOf(link: string): string | undefined {
  const [, query] = /\?([^>]*)>; rel="next"/.exec(link) ?? []
  return new URLSearchParams(query).get('cursor') ?? undefined
}

/**
 * A field that is added to the input of commands, such as what a key may do, must be sent or refused: the compiler stops here
 * until it is.
 */
function dropsNothing(_: Record<string, never>): void {}

/** The client tells a field that is undefined from one that is absent. */
function definedOnly<T extends object>(fields: T): { [Name in keyof T]?: NonNullable<T[Name]> } {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given) as { [Name in keyof T]?: NonNullable<T[Name]> }
}

function refuseAccount(account: string | undefined): void {
  if (account !== undefined) throw onlyOwner('--account', 'An API key sees its own account alone')
}

function onlyOwner(flag: string, why: string): CellError {
  return new CellError(
    'invalid_setting',
    `${why}: leave out ${flag}, or run the command on the node's machine, with --data-dir.`,
    { field: flag.slice(2) },
  )
}

/** The request never left: there was no connection, or none that could be trusted. */
const NOT_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|EPROTO|ERR_(TLS|SSL)_\w+|CERT_\w+|\w+_CERT(_\w+)?|UNABLE_TO_\w+|\w*SELF_SIGNED\w*)$/

/**
 * `fetch` with errors that say what happened and what to do.
 *
 * @param seen gets the headers of each answer
 * @throws `node_unreachable`, and as an aborted signal does
 */
export function remoteFetch(baseUrl: string, seen: (headers: Headers) => void): Fetch {
  return async (url, init) => {
    const answer = await fetchForLong(url, init).catch((error: unknown) => {
      throw init.signal?.aborted ? error : unreachable(baseUrl, error)
    })
    seen(answer.headers)
    return answer
  }
}

function unreachable(baseUrl: string, error: unknown): CellError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = String(Object(cause).code ?? '')
  const message =
    NOT_SENT.test(code) || isBadPort(cause)
      ? `The node at ${baseUrl} cannot be reached. Nothing was changed.`
      : `The connection to ${baseUrl} broke before the answer. The command may have run or not: check, then try again.`
  return new CellError('node_unreachable', message, { cause: describable(cause, code) })
}

/** `fetch` connects to no port that belongs to another protocol, such as 6000. */
function isBadPort(cause: unknown): boolean {
  return cause instanceof Error && cause.message === 'bad port'
}

/** If each of several addresses refused, the error has no message, only a code. */
function describable(cause: unknown, code: string): unknown {
  return cause instanceof Error && cause.message === '' ? new Error(code, { cause }) : cause
}
