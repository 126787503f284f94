import { CellError } from '../../errors.ts'
import type { CallDeadline } from './call-deadline.ts'
import type { ObjectBody } from './object-store.ts'

/**
 * Exactly `length` bytes of a body from `offset`.
 *
 * @throws `object_store_error` if the body can't be read or gives another number of bytes: what was announced is then
 *   not what would be stored.
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
    throw new CellError('object_store_error', 'The bytes to store could not be read.', { cause: error })
  }
  if (bytes.length === length) return bytes
  throw new CellError('object_store_error', 'The bytes to store ended before their announced length.')
}

/** A whole body, so many bytes at a time. */
export async function* readPieces(
  body: ObjectBody,
  pieceBytes: number,
  call: CallDeadline,
): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < body.size; offset += pieceBytes) {
    yield await readBody(body, offset, Math.min(pieceBytes, body.size - offset), call)
  }
}
