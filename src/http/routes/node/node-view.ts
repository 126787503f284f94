import type { StatusDocument } from '../../answers/status-answers.ts'

/** What a node tells its owner of itself as a whole. */
export interface NodeView {
  /** @param censusAgeMs counts and sizes of cells may be so old; 0 by default: they are taken anew */
  status(censusAgeMs?: number): Promise<StatusDocument>
  /** In Prometheus' text format. */
  metrics(): Promise<string>
}
