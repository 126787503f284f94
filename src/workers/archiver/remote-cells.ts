import type { CellPort } from '../../backup/archiver/cell-port.ts'
import type { CollectedLook } from '../../backup/changes/log/cell-log.ts'
import { type PackedPiece, unpackLogs } from '../../backup/changes/log/packed-logs.ts'
import type { CellCall, FromArchiver } from '../protocol/archiver-protocol.ts'
import { type Answer, OpenCalls } from '../protocol/open-calls.ts'

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
  readonly #calls = new OpenCalls<unknown>()

  constructor(send: (message: FromArchiver) => void) {
    this.#send = send
  }

  answer(answer: Answer): void {
    this.#calls.settle(answer)
  }

  #call(call: CellCall): Promise<unknown> {
    const { id, promise } = this.#calls.begin(undefined)
    this.#send({ type: 'call', id, call })
    return promise
  }
}
