import type { Audience } from '../../core/audience.ts'
import { asTenantsSee } from '../../core/problem.ts'
import { healthz, openMetrics, readyz } from './node-actions.ts'

/** Whoever can reach the port of the metrics, which name no account, no cell and no key. */
export const METRICS: Audience = {
  routes: [
    ['GET', '/metrics', openMetrics, 'open'],
    ['GET', '/healthz', healthz, 'open'],
    ['GET', '/readyz', readyz, 'open'],
  ],
  identify: () => undefined,
  show: asTenantsSee,
  sendsProgress: false,
}
