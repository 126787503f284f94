import type { MemoryUse } from '../http/quotas/memory-budgets.ts'
import type { RequestCounts } from '../http/routes/node/request-counts.ts'
import type { Census } from '../store/cells/cell-census.ts'
import type { StoreMetrics } from '../store/store-metrics.ts'

/** What the metrics of a node are made of, at one instant. */
export interface NodeReadings {
  /** Epoch milliseconds. */
  now: number
  version: string
  store: StoreMetrics
  census: Census
  requests: RequestCounts
  memory: MemoryUse
}
