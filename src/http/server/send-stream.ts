import type { IncomingMessage, ServerResponse } from 'node:http'
import { turnOfTheLoop } from '../../base/clock.ts'
import type { Application } from '../core/application.ts'
import type { BodyStream, HttpRequest, HttpResponse } from '../core/http-message.ts'

/** Sends a body piece by piece, each once the client has taken the one before. A body that is over breaks off at once. */
export async function sendStream(
  application: Application,
  {
    request,
    incoming,
    outgoing,
  }: { request: HttpRequest; incoming: IncomingMessage; outgoing: ServerResponse },
  { status, headers }: HttpResponse,
  stream: BodyStream,
): Promise<void> {
  outgoing.writeHead(status, headers)
  for await (const text of stream) {
    const charge = application.reserve(request, { body: text })
    if (charge === undefined || outgoing.destroyed) break
    const isTaken = outgoing.write(text)
    await (isTaken ? turnOfTheLoop() : drained(outgoing, stream.over))
    charge.keep(0)
    if (outgoing.writableNeedDrain) break
  }
  if (outgoing.writableNeedDrain || outgoing.destroyed) {
    outgoing.destroy()
    return
  }
  outgoing.end()
  // The head has promised a connection for further requests, which are not answered any more.
  if (application.shuttingDown && incoming.httpVersionMajor < 2)
    outgoing.once('finish', () => incoming.socket.end())
}

/** Resolves when the client has taken what was sent, is gone, or the stream is over. */
function drained(outgoing: ServerResponse, over: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  outgoing.once('drain', resolve).once('close', resolve)
  over.addEventListener('abort', () => resolve(), { once: true })
  if (over.aborted || outgoing.destroyed) resolve()
  return promise.finally(() => outgoing.off('drain', resolve).off('close', resolve))
}
