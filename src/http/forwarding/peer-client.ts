import { text } from 'node:stream/consumers'
import type { Clock } from '../../base/clock.ts'
import { CellError, type CellErrorCode, ERROR_KINDS } from '../../errors.ts'
import { internalPath } from './internal-listener.ts'
import { PeerConnections, PeerLost } from './peer-connections.ts'
import { CHALLENGE_HEADER, SIGNATURE_HEADER, Signer } from './signature.ts'

export interface PeerCallOptions {
  timeoutMs: number
}

/** Calls other nodes, on behalf of this one. */
export class PeerClient {
  readonly #clock: Clock
  readonly #connections: PeerConnections
  readonly #signer: Signer
  /** By address. */
  readonly #challenges = new Map<string, string>()

  constructor(secret: string, clock: Clock) {
    this.#clock = clock
    this.#connections = new PeerConnections(clock)
    this.#signer = new Signer(secret)
  }

  /**
   * Calls a route of another node.
   *
   * @param address `http://10.0.0.2:8787`
   * @param name the last segment of `/internal/cluster/…`
   * @throws `not_serving` if the node does not answer in time, `forbidden` if it is of another cluster; what the route threw
   */
  async call(address: string, name: string, body: unknown, { timeoutMs }: PeerCallOptions): Promise<unknown> {
    const sent = JSON.stringify(body ?? null)
    const first = await this.#send(address, name, sent, timeoutMs)
    // It was started again, or was never called before.
    const isNew = first.status === 401 && first.challenge !== undefined
    if (isNew) this.#challenges.set(address, first.challenge as string)
    const { status, content } = isNew ? await this.#send(address, name, sent, timeoutMs) : first
    if (status === 200) return JSON.parse(content)
    throw errorOf(status, content, address)
  }

  close(): void {
    this.#connections.close()
  }

  async #send(address: string, name: string, body: string, timeoutMs: number) {
    const call = { method: 'POST', path: internalPath(name), body }
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      [SIGNATURE_HEADER]: this.#signer.header(call, this.#challenges.get(address) ?? ''),
    }
    const { request, answer } = this.#connections.begin(address, {
      method: call.method,
      path: call.path,
      headers,
    })
    const timer = this.#clock.setTimer(
      () => request.destroy(new Error(`No answer in ${timeoutMs} ms.`)),
      timeoutMs,
    )
    try {
      request.end(body)
      const incoming = await answer
      const { [CHALLENGE_HEADER]: challenge } = incoming.headers
      const { statusCode: status = 0 } = incoming
      return { status, challenge: challenge as string | undefined, content: await text(incoming) }
    } catch (error) {
      const cause = error instanceof PeerLost ? error.cause : error
      throw new CellError('not_serving', `The node at ${address} does not answer.`, { cause })
    } finally {
      timer.cancel()
    }
  }
}

/** What the other node threw; its codes are ours. */
function errorOf(status: number, content: string, address: string): CellError {
  try {
    const { code, detail } = JSON.parse(content) as { code: string; detail: string }
    if (Object.hasOwn(ERROR_KINDS, code)) return new CellError(code as CellErrorCode, detail)
  } catch {
    // No node of ours answers so.
  }
  return new CellError(
    'not_serving',
    `What answers at ${address} is no node of this cluster: status ${status}.`,
  )
}
