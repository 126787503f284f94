import type { IncomingMessage } from 'node:http'

/**
 * Marks requests that our own server has received. Nobody else reads their bodies: the memory of each piece can be given back as soon
 * as the piece is copied. Elsewhere other code may keep the pieces, or may have made them.
 */
export const OWNS_BODY: unique symbol = Symbol('cellstore: owns the body')

/** A request of our own server. */
export interface OwnedBody extends IncomingMessage {
  readonly [OWNS_BODY]: true
  /** No more is read of its connection; what was read is still handed on. A request that is paused would keep it. */
  stopReading(): void
  readOn(): void
}

export function ownsBody(request: IncomingMessage): request is OwnedBody {
  return OWNS_BODY in request
}
