import type { Readable } from 'node:stream'
import type { Clock, Timer } from '../../../base/clock.ts'
import { CellError } from '../../../errors.ts'
import type { CallDeadline } from '../call-deadline.ts'

/** A body that comes over a network, and how to ask for the rest of it. */
export interface Reception {
  /** Bytes to deliver; what comes beyond them is left. */
  length: number
  first: Readable
  /** Asks for the body again, from that many bytes on. */
  resume(delivered: number): Promise<Readable>
  /** How often the rest is asked for without a byte in between. */
  resumesMax: number
  /** Longest wait for the next bytes, in milliseconds. */
  idleMs: number
  clock: Clock
  call: CallDeadline
}

/**
 * Delivers exactly `length` bytes, or ends in an error: a body that breaks off or stalls is asked for again from where
 * it stopped, and a short one never ends like a whole one. Ends `call` when it is done. A body that nobody reads holds
 * its connection until the call's deadline, no longer.
 *
 * @throws `object_store_unavailable` when the rest does not come.
 */
export function receiveBody(reception: Reception): AsyncGenerator<Uint8Array> {
  // Before anybody reads, not with the first read: that may come late, or never.
  return deliver(guarded(reception.first, reception.call), reception)
}

async function* deliver(first: Readable, reception: Reception): AsyncGenerator<Uint8Array> {
  const { length, call, resume, resumesMax } = reception
  let stream = first
  let delivered = 0
  let resumes = 0
  try {
    for (let chunks = stream[Symbol.asyncIterator](); delivered < length; ) {
      const chunk = await nextChunk(chunks, reception)
      if (chunk instanceof CellError) {
        stream.destroy()
        if (call.signal.aborted || resumes++ >= resumesMax) throw chunk
        stream = guarded(await resume(delivered), call)
        chunks = stream[Symbol.asyncIterator]()
        continue
      }
      resumes = 0
      const wanted = chunk.subarray(0, length - delivered)
      delivered += wanted.length
      yield wanted
    }
  } finally {
    call[Symbol.dispose]()
    stream.destroy()
  }
}

/** A stream whose failure between two reads does not end the process, and which ends with its call. */
function guarded(stream: Readable, call: CallDeadline): Readable {
  call.signal.addEventListener('abort', () => stream.destroy())
  return stream.on('error', () => {})
}

/** The next bytes, or why there are none. */
async function nextChunk(
  chunks: AsyncIterator<unknown>,
  { call, clock, idleMs }: Reception,
): Promise<Uint8Array | CellError> {
  let timer: Timer | undefined
  const idle = new Promise<never>((_, reject) => {
    timer = clock.setTimer(() => reject(unavailable(`sent nothing for ${idleMs} ms`)), idleMs)
  })
  try {
    const { done, value } = await call.race(Promise.race([chunks.next(), idle]))
    if (done === true || !(value instanceof Uint8Array)) return unavailable('ended a body before its length')
    return value
  } catch (error) {
    return error instanceof CellError ? error : unavailable('broke off in the middle of a body', error)
  } finally {
    timer?.cancel()
  }
}

function unavailable(what: string, cause?: unknown): CellError {
  return new CellError('object_store_unavailable', `The object store ${what}.`, { cause })
}
