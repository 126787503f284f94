import type { ServerResponse } from 'node:http'
import type { BackupProgressEvent } from '../../backup/versions/backup-types.ts'
import type { Clock, Timer } from '../../base/clock.ts'
import { formatProgress, HEARTBEAT_MS, PROGRESS_HEADER } from '../routes/owner/owner-protocol.ts'

const PROGRESS_EVERY_MS = 100

/**
 * Tells a client that its request is still under way, and how far it is: with interim responses, `102 Processing`, of
 * which HTTP allows any number before the answer. So the client can tell a server that is busy from one that is stuck.
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
    this.#write(`${PROGRESS_HEADER}: ${formatProgress(event)}\r\n`)
  }

  #beat(): Timer {
    return this.#clock.setTimer(() => {
      this.#write('')
      this.#heartbeat = this.#beat()
    }, HEARTBEAT_MS)
  }

  /** The method that Node.js has for this, `writeProcessing`, takes no headers. */
  #write(headers: string): void {
    const { socket, headersSent } = this.#response
    if (!headersSent) socket?.write(`HTTP/1.1 102 Processing\r\n${headers}\r\n`)
  }
}
