import type { Readable } from 'node:stream'
import { isBytes } from '../../../base/any-realm.ts'
import type { Clock, Timer } from '../../../base/clock.ts'
import { CellError } from '../../../errors.ts'
import type { CallDeadline } from '../call-deadline.ts'

/** A body that arrives over a network, and how to ask for the rest of it. */
export interface Reception {
  /** The number of bytes to deliver. Further bytes are ignored. */
  length: number
  first: Readable
  /** Asks for the rest of the body, after `delivered` bytes. */
  resume(delivered: number): Promise<Readable>
  /** How often the receiver asks for the rest without a byte in between. */
  resumesMax: number
  /** The longest wait for the next bytes, in milliseconds. */
  idleMs: number
  clock: Clock
  call: CallDeadline
}

/**
 * Delivers exactly `length` bytes, or ends in an error. If a body breaks off or stalls, it asks for the rest. A short body
 * never ends like a whole one. It ends `call` when it is done. A body that nobody reads holds its connection only until
 * the call's deadline.
 *
 * @throws `object_store_unavailable` if the rest does not come.
 */
export function receiveBody(reception: Reception): AsyncGenerator<Uint8Array> {
  // Guard the stream now and not with the first read, which may come late or never.
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

/** Keeps a stream's failure between two reads from ending the process, and ends the stream with its call. */
function guarded(stream: Readable, call: CallDeadline): Readable {
  call.signal.addEventListener('abort', () => stream.destroy())
  return stream.on('error', () => {})
}

/** The next bytes, or the reason why none come. */
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
    if (done === true || !isBytes(value)) return unavailable('ended a body too early')
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
