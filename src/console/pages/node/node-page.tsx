import { useEffect, useState } from 'preact/hooks'
import { count, moment, span } from '../../parts/format.ts'
import { type Column, PagedTable } from '../../parts/paged-table.tsx'
import { useChannel, useSession } from '../../parts/use-session.ts'
import { every } from '../../session/browser-clock.ts'
import type { Exchange } from '../../session/exchanges.ts'
import { Figure } from './figure.tsx'
import { LineChart } from './line-chart.tsx'
import { NodeStatus } from './node-status.tsx'

const LOOK_MS = 2_000

interface Health {
  serves: boolean
  ready: boolean
  damaged: number | null
}

/** How the node does: its health, how it answers this page, and for its owner all that it tells. */
export function NodePage() {
  const { client, exchanges, may } = useSession()
  const recent = useChannel(exchanges.recent)
  const [health, setHealth] = useState<Health>()
  useEffect(() => {
    const ending = new AbortController()
    const look = async () => {
      const { signal } = ending
      const serves = await client.healthz({}, { signal }).then(
        () => true,
        () => false,
      )
      const ready = await client.readyz({}, { signal }).catch(() => undefined)
      if (!signal.aborted)
        setHealth({ serves, ready: ready !== undefined, damaged: ready?.damaged_backups ?? null })
    }
    void look()
    const stop = every(LOOK_MS, () => {
      if (document.visibilityState === 'visible') void look()
    })
    return () => {
      stop()
      ending.abort()
    }
  }, [client])
  const answered = recent.flatMap(({ status, ms }) => (status === null ? [] : [ms])).sort((a, b) => a - b)
  const points = recent.map(({ at, status, ms }) => ({ at, value: status === null ? null : ms }))
  const failed = recent.filter(({ status }) => status === null || status >= 500).length
  return (
    <main>
      <div class="head">
        <h1>Node</h1>
        {health !== undefined && (
          <span class="facts">
            <span class={health.serves ? 'badge good' : 'badge bad'}>
              {health.serves ? 'serves' : 'away'}
            </span>
            <span class={health.ready ? 'badge good' : 'badge bad'}>
              {health.ready ? 'ready' : 'not ready'}
            </span>
          </span>
        )}
      </div>
      <dl class="figures node-figures">
        <Figure
          name="Cells with damaged backups"
          value={health?.damaged == null ? '–' : count(health.damaged)}
        />
        <Figure name="Requests of this page" value={count(recent.length)} />
        <Figure name="Without an answer, or 5xx" value={count(failed)} />
        <Figure name="Median answer" value={quantile(answered, 0.5)} />
        <Figure name="99 of 100 within" value={quantile(answered, 0.99)} />
      </dl>
      {may.owner ? (
        <NodeStatus />
      ) : (
        <div class="notice plain">
          <p>
            The whole node is for its owner: sign in with a key that{' '}
            <code>cellstore keys create --owner</code> has made.
          </p>
        </div>
      )}
      <LineChart title="Answers to this page" unit="ms" points={points} />
      <section class="versions" aria-label="Requests of this page">
        <h2>Requests of this page</h2>
        <PagedTable label="Requests" rows={[...recent].reverse()} keyOf={(_, at) => at} columns={COLUMNS} />
      </section>
    </main>
  )
}

const COLUMNS: Column<Exchange>[] = [
  { name: 'At', by: ({ at }) => at, cell: ({ at }) => moment(at) },
  { name: 'Request', cell: ({ method, path }) => <code class="request">{`${method} ${path}`}</code> },
  {
    name: 'Status',
    by: ({ status }) => status ?? 0,
    cell: ({ status }) => (
      <span class={status === null || status >= 400 ? 'fault-text' : ''}>{status ?? 'no answer'}</span>
    ),
  },
  { name: 'Time', by: ({ ms }) => ms, isNumber: true, cell: ({ ms }) => span(ms) },
  { name: 'Request id', cell: ({ requestId }) => <code class="id">{requestId ?? ''}</code> },
]

function quantile(sorted: readonly number[], share: number): string {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
  return value === undefined ? '–' : span(value)
}
