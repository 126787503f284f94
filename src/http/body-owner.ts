import type { IncomingMessage } from 'node:http'

/**
 * Marks requests that our own server has received. Nobody else reads their bodies: the memory of each piece can be given back as soon
 * as the piece is copied. Elsewhere other code may keep the pieces, or may have made them.
 */
export const OWNS_BODY: unique symbol = Symbol('cellstore: owns the body')

export function ownsBody(request: IncomingMessage): boolean {
  return OWNS_BODY in request
}
