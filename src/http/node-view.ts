import type { StatusDocument } from './status-document.ts'

/** What a node tells its owner of itself as a whole. */
export interface NodeView {
  status(): Promise<StatusDocument>
  /** In Prometheus' text format. */
  metrics(): Promise<string>
}
