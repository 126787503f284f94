import { CellError } from '../../errors.ts'
import type { CallDeadline } from './call-deadline.ts'
import type { ObjectBody } from './object-store.ts'

/**
 * Reads exactly `length` bytes of a body from `offset`.
 *
 * @throws `object_store_error` if the body cannot be read, or gives another number of bytes: the stored object would not
 *   be the announced one.
 */
export async function readBody(
  body: ObjectBody,
  offset: number,
  length: number,
  call: CallDeadline,
): Promise<Buffer> {
  call.signal.throwIfAborted()
  let bytes: Buffer
  try {
    bytes = await call.race(body.read(offset, length))
  } catch (error) {
    if (error instanceof CellError) throw error
    throw new CellError('object_store_error', 'Reading the bytes to store failed.', { cause: error })
  }
  if (bytes.length === length) return bytes
  const message = `The body of the object gave ${bytes.length} bytes instead of ${length}.`
  throw new CellError('object_store_error', message)
}

/** Reads a whole body in pieces of `pieceBytes`. */
export async function* readPieces(
  body: ObjectBody,
  pieceBytes: number,
  call: CallDeadline,
): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < body.size; offset += pieceBytes) {
    yield await readBody(body, offset, Math.min(pieceBytes, body.size - offset), call)
  }
}
