import packageJson from '../../../package.json' with { type: 'json' }
import type { StatusDocument } from '../../http/answers/status-answers.ts'
import type { NodeView } from '../../http/routes/node/node-view.ts'
import { RequestCounts } from '../../http/routes/node/request-counts.ts'
import { encodeStatus } from '../../http/routes/node/status-document.ts'
import type { NodeServer } from '../../http/server/node-server.ts'
import type { ServedStore } from './served-store.ts'

/** The files of all cells are looked at once in this time, if anybody asks for metrics. */
const CENSUS_AGE_MS = 60_000

/** What a node tells of itself. */
export class NodeObserver implements NodeView {
  /** Of all servers of the node but that of the metrics. */
  readonly counts = new RequestCounts()
  readonly #store: ServedStore
  /** Where accounts are served; undefined until it is there. */
  server: Pick<NodeServer, 'memory'> | undefined

  constructor(store: ServedStore) {
    this.#store = store
  }

  async status(censusAgeMs = 0): Promise<StatusDocument> {
    const { core, metrics } = this.#store
    return encodeStatus(core, metrics(), await core.census.take(censusAgeMs), this.counts)
  }

  async metrics(): Promise<string> {
    const { core, metrics } = this.#store
    const census = await core.census.take(CENSUS_AGE_MS)
    // A node that is never asked does without it.
    const { prometheusText } = await import('../../metrics/prometheus.ts')
    return await prometheusText({
      now: core.clock.now(),
      version: packageJson.version,
      store: metrics(),
      census,
      requests: this.counts,
      memory: this.server?.memory ?? NO_MEMORY,
    })
  }
}

const NONE = { used: 0, total: 0 }
const NO_MEMORY = { bodies: NONE, unsent: NONE }
