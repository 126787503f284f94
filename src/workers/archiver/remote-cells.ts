import type { CellPort } from '../../backup/archiver/cell-port.ts'
import type { CollectedLook } from '../../backup/changes/cell-log.ts'
import { type PackedPiece, unpackLogs } from '../../backup/changes/packed-logs.ts'
import type { CellCall, FromArchiver } from '../protocol/archiver-protocol.ts'
import { fromWireError, type WireError } from '../protocol/wire-error.ts'

/** The archiver's way to the cells of its node. */
export class RemoteCells {
  /** Each call is a message, and so is its answer. */
  readonly port = new Proxy({} as CellPort, {
    get:
      (_, method) =>
      async (...args: unknown[]) => {
        const answer = await this.#call({ method, args } as CellCall)
        return method === 'collectLogs' ? unpackLogs(answer as CollectedLook<PackedPiece>) : answer
      },
  })
  readonly #send: (message: FromArchiver) => void
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  #calls = 0

  constructor(send: (message: FromArchiver) => void) {
    this.#send = send
  }

  answer(id: number, value: unknown, error: WireError | undefined): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error === undefined) waiting?.resolve(value)
    else waiting?.reject(fromWireError(error))
  }

  #call(call: CellCall): Promise<unknown> {
    const id = ++this.#calls
    const waiting = Promise.withResolvers<unknown>()
    this.#waiting.set(id, waiting)
    this.#send({ type: 'call', id, call })
    return waiting.promise
  }
}
