/** What a node knows of itself alone. */
export interface NodeReport {
  /** For how long it may still answer. */
  lease_ms: number
  /** That it is handing over. */
  ranges_moving: number
  /** Null: nothing waits. */
  backup_lag_ms: number | null
}

/** A node whose cells others have taken. */
export interface TakenNode {
  node: string
  at: string
  /** What it acknowledged in between, except in the durability `remote`, may be lost. Null: nothing that it wrote is known. */
  lost_from: string | null
  lost_until: string
}

export interface NodeStatus {
  id: string
  address: string
  state: 'alive' | 'leaving' | 'dead'
  ranges: number
  busy_cells: number
  /** Since its last beat; 0 for the node that answers. */
  silent_ms: number
  /** Changes of the catalog that it has not seen. */
  behind: number
  started_at: string
  /** Null if it does not answer. */
  report: NodeReport | null
}

/** How a cluster is, as one of its nodes sees it. */
export interface ClusterStatus {
  /** The node that answers. */
  node: string
  assignment: number
  catalog_version: number
  /** Whether nothing is to be moved. */
  level: boolean
  /** Null if PostgreSQL does not answer: then the rest is as old as its last answer. */
  postgres_version: number | null
  nodes: NodeStatus[]
  taken_over: TakenNode[]
}
