import type { Application } from '../core/application.ts'
import type { BodyStream, HttpRequest } from '../core/http-message.ts'

/** A body without a known end as that of a Response: each piece is made when the one before was taken. */
export function pulled(
  application: Application,
  request: HttpRequest,
  body: BodyStream,
): ReadableStream<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done) return controller.close()
        // It is the server's as soon as it is handed over, so that only the room for it is asked for.
        const charge = application.reserve(request, { body: value })
        if (charge === undefined) {
          body.close()
          return controller.error(new Error('The account leaves too many answers untaken.'))
        }
        charge.keep(0)
        controller.enqueue(Buffer.from(value))
      },
      cancel: () => body.close(),
    },
    // Nothing before somebody asks for it.
    { highWaterMark: 0 },
  )
}
