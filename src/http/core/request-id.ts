import { randomUUID } from 'node:crypto'

/** Ids of common tracing systems. Anything else could smuggle markup or line breaks into logs and pages. */
const SANE = /^[A-Za-z0-9._:/+=@-]{1,128}$/
const API_KEY = /_sk_/

/** The id that the client gave its request, if it is well-formed; otherwise a new one. */
export function requestIdOf(inbound: string | undefined): string {
  // A request id goes to the log, and an API key must not (invariant 12).
  return inbound !== undefined && SANE.test(inbound) && !API_KEY.test(inbound) ? inbound : randomUUID()
}
