import { connectionsFor } from '../../base/machine/descriptor-limit.ts'

/** Bounds on what a connection may cost. All times in milliseconds. */
export interface ConnectionLimits {
  /** For a request's headers to arrive. */
  headersMs: number
  /** For a whole request to arrive. */
  requestMs: number
  /** For the next request on a connection that idles. */
  keepAliveMs: number
  /** For a client to read more of its answer. */
  stalledMs: number
  /** Of a request's line and headers together, in bytes. A key of 1,024 bytes takes up to 3,072 in a path. */
  headerBytesMax: number
  /** Requests on one connection; the last one's answer closes it. */
  requestsMax: number
  /** Open connections. A few more are answered 503; beyond those, connections are closed at once. */
  connectionsMax: number
}

/** Without `connectionsMax`, which depends on the machine. */
export const DEFAULT_CONNECTION_LIMITS: Omit<ConnectionLimits, 'connectionsMax'> = {
  headersMs: 10_000,
  requestMs: 30_000,
  keepAliveMs: 5_000,
  stalledMs: 30_000,
  headerBytesMax: 16_384,
  requestsMax: 1_000_000,
}

/**
 * @param openCellsMax cells that this process may keep open: they share its descriptors with the connections
 * @param sendsOn a connection can take another one, to the node that has the cell
 */
export function defaultConnectionLimits(openCellsMax: number, sendsOn = false): ConnectionLimits {
  const connectionsMax = connectionsFor(openCellsMax, undefined, sendsOn ? 2 : 1)
  return { ...DEFAULT_CONNECTION_LIMITS, connectionsMax }
}
