import type { Tenant } from './tenant.ts'

/** Prepares what it needs, and returns what attacks until it is told to stop. */
export type Attack = (tenant: Tenant) => Promise<(signal: AbortSignal) => Promise<unknown>>
