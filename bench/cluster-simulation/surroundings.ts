import type { Clock } from '../../src/base/clock.ts'
import type { Assignment } from '../../src/catalog/assignment/assignment.ts'
import type { Counts } from './counts.ts'
import type { SimulatedObjects } from './simulated-bucket.ts'
import type { SimulatedPostgres } from './simulated-postgres.ts'

export interface SimulationSettings {
  nodes: number
  cells: number
  /** Of all cells, those that were used of late. */
  busyShare: number
  ttlMs: number
  lagMs: number
  /** A round trip, in milliseconds. */
  postgresMs: number
  bucketMs: number
  peerMs: number
  seed: number
}

/** What a node finds around it. */
export interface Surroundings {
  readonly settings: SimulationSettings
  readonly clock: Clock
  readonly random: () => number
  readonly postgres: SimulatedPostgres
  readonly objects: SimulatedObjects
  readonly statements: Counts
  readonly requests: Counts
  /** Who has what at the start. */
  readonly first: Assignment
  /** The two keys of the catalog's `meta` that the cluster begins with. */
  readonly seed: ReadonlyMap<string, string>
  busyIn(range: number): number
  parsed(text: string): Assignment
  /** A node has found that another one has taken over what it had. */
  ended(node: { id: string }): void
  call(from: Clock, address: string, name: string, body: object, timeoutMs: number): Promise<unknown>
}
