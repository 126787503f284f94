import http, { type IncomingMessage } from 'node:http'
import packageJson from '../../../package.json' with { type: 'json' }
import { CellError } from '../../errors.ts'
import {
  type AnswerLine,
  decodeError,
  type Greeting,
  linesOf,
  PROTOCOL_VERSION,
  SILENCE_MS_MAX,
} from './admin-protocol.ts'
import type { AdminService, BackupInput, CreateCellInput, CreateKeyInput, Transfer } from './admin-service.ts'
import type {
  BackupDocument,
  BackupPageDocument,
  CellDocument,
  CellPageDocument,
  CreatedKeyDocument,
  KeyDocument,
  RestoreDocument,
  RevokedKeyDocument,
  SqlDocument,
} from './documents.ts'

/** Nobody listens there any more: a socket file outlives its process. */
const NOBODY = ['ECONNREFUSED', 'ENOENT']

/** An owner's commands on a running node, through its socket. */
export class SocketAdmin implements AdminService {
  readonly #path: string

  private constructor(path: string) {
    this.#path = path
  }

  /**
   * @returns undefined if nobody listens there
   * @throws `busy` if who listens says nothing, or speaks another version's language; `store_locked` if it is not for this user
   */
  static async connect(path: string): Promise<SocketAdmin | undefined> {
    const admin = new SocketAdmin(path)
    try {
      const { protocol, version, pid } = await admin.#call<Greeting>('hello', {})
      if (protocol === PROTOCOL_VERSION) return admin
      throw new CellError(
        'busy',
        `The running node ${pid} is cellstore ${version}, this command is ${packageJson.version}, and they do not understand each other. Use the node's version.`,
      )
    } catch (error) {
      const code = error instanceof CellError ? errnoOf(error.cause) : undefined
      if (isNobody(code)) return undefined
      if (code !== 'EACCES' && code !== 'EPERM') throw error
      throw new CellError(
        'store_locked',
        'The running node belongs to another user of this machine, and takes commands from them alone.',
      )
    }
  }

  createKey(input: CreateKeyInput): Promise<CreatedKeyDocument> {
    return this.#call('createKey', input)
  }

  listKeys(input: { account?: string | undefined }): Promise<KeyDocument[]> {
    return this.#call('listKeys', input)
  }

  revokeKey(input: { id: string }): Promise<RevokedKeyDocument> {
    return this.#call('revokeKey', input)
  }

  createCell(input: CreateCellInput): Promise<CellDocument> {
    return this.#call('createCell', input)
  }

  listCells(input: { account?: string | undefined; cursor?: string | undefined }): Promise<CellPageDocument> {
    return this.#call('listCells', input)
  }

  deleteCell(input: { cell: string }): Promise<{ id: string; deleted: true }> {
    return this.#call('deleteCell', input)
  }

  sql(input: { cell: string; sql: string; params?: unknown }): Promise<SqlDocument> {
    return this.#call('sql', input)
  }

  backup(input: BackupInput, transfer: Transfer = {}): Promise<BackupDocument> {
    return this.#call('backup', input, transfer)
  }

  restore(
    input: { cell: string; version?: string | undefined },
    transfer: Transfer = {},
  ): Promise<RestoreDocument> {
    return this.#call('restore', input, transfer)
  }

  listBackups(input: { cell: string; cursor?: string | undefined }): Promise<BackupPageDocument> {
    return this.#call('listBackups', input)
  }

  /** Each command has a connection of its own, which ended with it. */
  async close(): Promise<void> {}

  async #call<T>(operation: string, input: unknown, { signal, onProgress }: Transfer = {}): Promise<T> {
    try {
      const response = await this.#send(operation, JSON.stringify(input), signal)
      response.setEncoding('utf8')
      for await (const text of linesOf(response as AsyncIterable<string>)) {
        if (text === '') continue
        const line = JSON.parse(text) as AnswerLine
        if ('result' in line) return line.result as T
        if ('error' in line) throw decodeError(line.error)
        onProgress?.(line.progress)
      }
    } catch (error) {
      if (error instanceof CellError || signal?.aborted) throw error
      throw isNobody(errnoOf(error)) ? justStopped(error) : cutOff(error)
    }
    throw cutOff(undefined)
  }

  #send(operation: string, body: string, signal: AbortSignal | undefined): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const request = http.request({
        socketPath: this.#path,
        path: `/${operation}`,
        method: 'POST',
        agent: false,
        timeout: SILENCE_MS_MAX,
        headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) },
        ...(signal === undefined ? {} : { signal }),
      })
      request.on('timeout', () => request.destroy(silent()))
      request.on('error', reject)
      request.on('response', resolve)
      request.end(body)
    })
  }
}

function silent(): CellError {
  return new CellError(
    'busy',
    `The running node has said nothing for ${SILENCE_MS_MAX / 1_000} s. Try again.`,
  )
}

function justStopped(cause: unknown): CellError {
  return new CellError(
    'shutting_down',
    'The running node has just stopped, and nothing was done. Try again.',
    { cause },
  )
}

function cutOff(cause: unknown): CellError {
  return new CellError(
    'shutting_down',
    'The running node went away before it answered. What was asked for may be done or not: look, then try again.',
    { cause },
  )
}

function isNobody(errno: string | undefined): boolean {
  return errno !== undefined && NOBODY.includes(errno)
}

function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
