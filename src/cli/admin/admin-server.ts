import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import packageJson from '../../../package.json' with { type: 'json' }
import type { BackupProgressEvent } from '../../backup/versions/backup-types.ts'
import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { CellError, isCellError } from '../../errors.ts'
import {
  type AnswerLine,
  encodeError,
  type Greeting,
  HEARTBEAT_MS,
  OPERATIONS,
  PROTOCOL_VERSION,
} from './admin-protocol.ts'
import type { AdminService } from './admin-service.ts'
import type { SocketPlace } from './socket-place.ts'

export interface AdminServerComponents {
  service: AdminService
  place: SocketPlace
  clock: Clock
  log: Log
}

/** SQL text and its parameters, at their limits, with room to spare. */
const BODY_BYTES_MAX = 64 * 1_048_576
/** Progress is told this often. */
const PROGRESS_EVERY_MS = 100
/** Nobody but the owner may connect: read and write for one. */
const OWNER_ONLY_MASK = 0o177

/**
 * Takes the owner's commands on a Unix socket. Who may connect is settled by the file system: the socket has mode 0600, in a
 * folder of mode 0700.
 */
export class AdminServer {
  readonly #c: AdminServerComponents
  readonly #server: Server
  #stopped: Promise<void> | undefined

  private constructor(components: AdminServerComponents) {
    this.#c = components
    this.#server = createServer((request, response) => void this.#answer(request, response))
  }

  /** @throws the errors of node:net */
  static async start(components: AdminServerComponents): Promise<AdminServer> {
    const server = new AdminServer(components)
    await server.#listen()
    return server
  }

  /** Where commands find it. */
  get path(): string {
    return this.#c.place.path
  }

  /** Takes no new command, lets those under way finish, and ends what is left at the deadline. */
  stop({ drainMs }: { drainMs: number }): Promise<void> {
    this.#stopped ??= this.#drain(drainMs)
    return this.#stopped
  }

  #listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      // The socket is bound within the call: at no instant does it have another mode.
      const mask = process.umask(OWNER_ONLY_MASK)
      try {
        this.#server.listen({ path: this.path }, () => {
          this.#server.off('error', reject)
          resolve()
        })
      } finally {
        process.umask(mask)
      }
    })
  }

  async #drain(drainMs: number): Promise<void> {
    const { clock, place } = this.#c
    await new Promise<void>((resolve) => {
      const deadline = clock.setTimer(() => this.#server.closeAllConnections(), drainMs)
      this.#server.close(() => {
        deadline.cancel()
        resolve()
      })
    })
    place.dispose()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = new Answer(response, this.#c.clock)
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    try {
      const result = await this.#perform(request, answer, gone.signal)
      answer.end({ result })
    } catch (error) {
      answer.end(encodeError(this.#toCellError(error, gone.signal.aborted || request.errored !== null)))
    }
  }

  async #perform(request: IncomingMessage, answer: Answer, signal: AbortSignal): Promise<unknown> {
    const name = request.url?.slice(1) ?? ''
    if (name === 'hello') return greeting()
    if (!Object.hasOwn(OPERATIONS, name)) {
      throw new CellError(
        'invalid_request',
        `The running node, cellstore ${packageJson.version}, does not know this command.`,
      )
    }
    const perform = OPERATIONS[name as keyof typeof OPERATIONS]
    const input = await readInput(request)
    return await perform(this.#c.service, input, { signal, onProgress: (event) => answer.progress(event) })
  }

  /** @param gone whoever asked went away, which is what failed then */
  #toCellError(error: unknown, gone: boolean): CellError {
    if (error instanceof CellError && error.code !== 'internal') return error
    if (!gone) this.#c.log.error({ err: error }, 'a command over the socket failed with an internal error')
    return isCellError(error)
      ? error
      : new CellError('internal', 'An unexpected error occurred. The log of the node has it.')
  }
}

/** One answer: lines of JSON, and a sign of life where there is nothing to say for long. */
class Answer {
  readonly #response: ServerResponse
  readonly #clock: Clock
  #heartbeat: Timer
  #phase: string | undefined
  #progressAt = 0

  constructor(response: ServerResponse, clock: Clock) {
    this.#response = response
    this.#clock = clock
    response.writeHead(200, { 'Content-Type': 'application/x-ndjson', Connection: 'close' })
    this.#heartbeat = this.#beat()
  }

  progress(event: BackupProgressEvent): void {
    const now = this.#clock.monotonic()
    const isNews = event.phase !== this.#phase || event.bytes >= event.total
    if (!isNews && now - this.#progressAt < PROGRESS_EVERY_MS) return
    this.#phase = event.phase
    this.#progressAt = now
    this.#write({ progress: event })
  }

  end(line: AnswerLine): void {
    this.#heartbeat.cancel()
    this.#write(line)
    this.#response.end()
  }

  #write(line: AnswerLine): void {
    if (!this.#response.destroyed) this.#response.write(`${JSON.stringify(line)}\n`)
  }

  #beat(): Timer {
    return this.#clock.setTimer(() => {
      if (!this.#response.destroyed) this.#response.write('\n')
      this.#heartbeat = this.#beat()
    }, HEARTBEAT_MS)
  }
}

function greeting(): Greeting {
  return { protocol: PROTOCOL_VERSION, version: packageJson.version, pid: process.pid }
}

async function readInput(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > BODY_BYTES_MAX) {
      throw new CellError('body_too_large', `A command takes at most ${BODY_BYTES_MAX} bytes.`, {
        limit: BODY_BYTES_MAX,
      })
    }
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    throw new CellError('invalid_json', 'The command is not JSON.')
  }
}
