import type { StatusDocument } from '../../answers/status-answers.ts'

/** What the owner of several nodes asks of one of them. */
export interface ClusterCommands {
  /** A `ClusterStatus`. */
  status(): Promise<object>
  /** @param node its id, the beginning of it, or its address */
  drain(node: string): Promise<void>
  balance(): Promise<void>
  /** @param last without other nodes; the store needs no cluster afterwards */
  leaveFor(last: boolean): Promise<void>
}

/** What a node tells its owner of itself as a whole. */
export interface NodeView {
  /** @param censusAgeMs counts and sizes of cells may be so old; 0 by default: they are taken anew */
  status(censusAgeMs?: number): Promise<StatusDocument>
  /** In Prometheus' text format. */
  metrics(): Promise<string>
  /** Undefined for a node that is alone. */
  readonly cluster?: ClusterCommands | undefined
}
