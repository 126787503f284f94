import type { ServerResponse } from 'node:http'
import type { BackupProgressEvent } from '../backup/versions/backup-types.ts'
import type { Clock, Timer } from '../base/clock.ts'

/** A server that is still at work says so this often. */
export const HEARTBEAT_MS = 5_000
const PROGRESS_EVERY_MS = 100
/** As {@link parseProgress} reads it: `upload 4096/65536`. */
const PROGRESS_HEADER = 'progress'

/**
 * Tells a client that its request is still under way, and how far it is: with interim responses, `102 Processing`, of
 * which HTTP allows any number before the answer. So a client can tell a server that is busy from one that is stuck.
 */
export class Processing {
  readonly #response: ServerResponse
  readonly #clock: Clock
  #heartbeat: Timer
  #phase: string | undefined
  #toldAt = 0

  constructor(response: ServerResponse, clock: Clock) {
    this.#response = response
    this.#clock = clock
    this.#heartbeat = this.#beat()
    response.once('close', () => this.#heartbeat.cancel())
  }

  readonly tell = (event: BackupProgressEvent): void => {
    const now = this.#clock.monotonic()
    const isNews = event.phase !== this.#phase || event.bytes >= event.total
    if (!isNews && now - this.#toldAt < PROGRESS_EVERY_MS) return
    this.#phase = event.phase
    this.#toldAt = now
    this.#write(`${PROGRESS_HEADER}: ${event.phase} ${event.bytes}/${event.total}\r\n`)
  }

  #beat(): Timer {
    return this.#clock.setTimer(() => {
      this.#write('')
      this.#heartbeat = this.#beat()
    }, HEARTBEAT_MS)
  }

  /** Node.js has a method for this, `writeProcessing`, but that takes no headers. */
  #write(headers: string): void {
    const { socket, headersSent } = this.#response
    if (!headersSent) socket?.write(`HTTP/1.1 102 Processing\r\n${headers}\r\n`)
  }
}

/** What an interim response says of a request's progress, if it says anything. */
export function parseProgress(headers: NodeJS.Dict<string | string[]>): BackupProgressEvent | undefined {
  const [, phase, bytes, total] =
    /^(read|upload|download) (\d+)\/(\d+)$/.exec(String(headers[PROGRESS_HEADER])) ?? []
  if (phase === undefined) return undefined
  return { phase: phase as BackupProgressEvent['phase'], bytes: Number(bytes), total: Number(total) }
}
