import type { UnsentCharge } from '../quotas/memory-budgets.ts'

const CHUNK_BYTES = 65_536

/** Nobody may ever take an answer, or say so. Then its charge ends with it. */
const forgotten = new FinalizationRegistry<UnsentCharge>((charge) => charge.keep(0))

/**
 * The body of a Response in chunks, as its client takes them. It is charged until the last one: a Response does not say
 * what becomes of a body that is handed over as a whole.
 *
 * @param charge undefined if there was no room: then the body breaks off, which ends the connection
 */
export function chargedStream(
  body: string | Uint8Array,
  charge: UnsentCharge | undefined,
): ReadableStream<Uint8Array> {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  let at = 0
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (charge === undefined) {
          controller.error(new Error('The account leaves too many answers untaken.'))
          return
        }
        controller.enqueue(bytes.subarray(at, at + CHUNK_BYTES))
        at += CHUNK_BYTES
        if (at < bytes.length) return
        charge.keep(0)
        controller.close()
      },
      cancel: () => charge?.keep(0),
    },
    // Nothing before somebody asks for it.
    { highWaterMark: 0 },
  )
  if (charge !== undefined) forgotten.register(stream, charge)
  return stream
}
