import type { ProcessIdentity } from '../../catalog/directory-lock.ts'

/** Messages between a node and its fork server. They travel over the channel that Node.js makes: it takes pipes along. */

/** A process that the node wants. */
export type Wanted =
  | { child: 'worker'; memoryMax: number }
  | { child: 'checker'; memoryMax: number; cpuSeconds: number }

export type ToForkServer = { id: number } & Wanted

/**
 * What follows a request: `started`, the two pipes, and one day `exited`; or `failed`. A pipe comes without its handle if the
 * process has ended at once.
 */
export type FromForkServer =
  | { type: 'started'; id: number; identity: ProcessIdentity }
  | { type: 'pipe'; id: number; pipe: 'answers' | 'requests' }
  | { type: 'exited'; id: number; signal: NodeJS.Signals | null }
  | { type: 'failed'; id: number; reason: string }
