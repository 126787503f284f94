import { useEffect, useRef, useState } from 'preact/hooks'
import type { AnswerOf, operations } from '../../../client/index.ts'
import { Failure } from '../../parts/failure.tsx'
import { bytes, count, moment, span } from '../../parts/format.ts'
import { type Column, PagedTable } from '../../parts/paged-table.tsx'
import { useSession } from '../../parts/use-session.ts'
import { every } from '../../session/browser-clock.ts'
import { Figure } from './figure.tsx'
import { LineChart, type Point } from './line-chart.tsx'

type Status = AnswerOf<operations['nodeStatus']>
type NodeFailure = Status['failures'][number]
type BusyCell = Status['cells']['busiest'][number]

const LOOK_MS = 3_000
/** Ten minutes. */
const POINTS_MAX = 200

/** How the whole node does, for its owner: what `cellstore status` shows. */
export function NodeStatus() {
  const { client } = useSession()
  const [status, setStatus] = useState<Status>()
  const [error, setError] = useState<unknown>()
  const [commits, setCommits] = useState<readonly Point[]>([])
  const last = useRef<{ at: number; commits: number } | undefined>(undefined)
  useEffect(() => {
    const ending = new AbortController()
    const look = async () => {
      try {
        const found = await client.nodeStatus({}, { signal: ending.signal })
        setStatus(found)
        setError(undefined)
        const at = Date.parse(found.started_at) + found.uptime_ms
        const before = last.current
        last.current = { at, commits: found.commits }
        // After a restart the counter begins anew.
        if (before === undefined || at <= before.at || found.commits < before.commits) return
        const value = ((found.commits - before.commits) / (at - before.at)) * 1_000
        setCommits((points) => [...points, { at, value }].slice(-POINTS_MAX))
      } catch (failure) {
        if (!ending.signal.aborted) setError(failure)
      }
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
  if (status === undefined) return <Failure error={error} />
  const { cells, backups, workers, recovery } = status
  const ended = Object.entries(workers?.ended ?? {}).filter(([, number]) => number > 0)
  return (
    <>
      <Failure error={error} />
      <section aria-label="The whole node">
        <h2>The whole node</h2>
        <dl class="figures node-figures">
          <Figure name="Version" value={status.version} />
          <Figure name="Up" value={span(status.uptime_ms)} />
          <Figure name="Cells" value={`${count(cells.count)}, ${count(cells.open)} open`} />
          <Figure name="Bytes of all cells" value={bytes(cells.bytes)} />
          <Figure name="Requests" value={count(status.requests.count)} />
          <Figure name="Answered with 5xx" value={count(status.requests.failed)} />
          <Figure name="Commits" value={count(status.commits)} />
          <Figure name="Statements" value={count(status.statements)} />
          {backups !== null && (
            <>
              <Figure name="Lag of backups" value={span(backups.shipping?.lag_ms ?? backups.lag_ms)} />
              <Figure name="Cells to back up" value={count(backups.changed)} />
              <Figure name="Failed backups" value={count(backups.failed)} />
              <Figure
                name="Object store"
                value={
                  backups.object_store_lost_at === null
                    ? 'answers'
                    : `away since ${moment(backups.object_store_lost_at)}`
                }
              />
            </>
          )}
          {workers !== null && (
            <>
              <Figure name="Workers" value={count(workers.running)} />
              <Figure
                name="Workers ended early"
                value={ended.map(([reason, number]) => `${number} ${reason}`).join(', ') || '0'}
              />
              <Figure name="Operations that wait" value={count(workers.operations_waiting)} />
            </>
          )}
          {cells.quarantined_count > 0 && (
            <Figure name="Quarantined cells" value={count(cells.quarantined_count)} />
          )}
          {recovery !== null && (
            <Figure
              name={recovery.ended_at === null ? 'Being restored' : 'Restored at the start'}
              value={`${count(recovery.recovered)} of ${count(recovery.cells)}`}
            />
          )}
        </dl>
      </section>
      <LineChart title="Commits a second" unit="/s" points={commits} />
      <section class="versions" aria-label="Requests of all accounts">
        <h2>Requests of all accounts</h2>
        <PagedTable
          label="Requests by route"
          rows={status.requests.routes}
          keyOf={({ method, route }) => `${method} ${route}`}
          columns={ROUTES}
        />
      </section>
      <section class="versions" aria-label="Slow statements">
        <h2>Slow statements</h2>
        {status.slow_statements.length === 0 ? (
          <p class="muted">None of late: no request with SQL took 500 ms.</p>
        ) : (
          <PagedTable
            label="Requests with SQL of 500 ms or more"
            rows={status.slow_statements}
            keyOf={({ request_id }) => request_id}
            columns={SLOW}
          />
        )}
      </section>
      <section class="versions" aria-label="Busiest cells">
        <h2>Busiest cells</h2>
        <PagedTable
          label="Cells by operations"
          rows={cells.busiest}
          keyOf={({ id }) => id}
          columns={BUSIEST}
        />
      </section>
      <section class="versions" aria-label="Failures of the node">
        <h2>Last failures</h2>
        {status.failures.length === 0 ? (
          <p class="muted">None since the start.</p>
        ) : (
          <PagedTable label="Failures" rows={status.failures} keyOf={(_, at) => at} columns={FAILURES} />
        )}
      </section>
    </>
  )
}

const ROUTES: Column<Status['requests']['routes'][number]>[] = [
  { name: 'Request', cell: ({ method, route }) => <code class="request">{`${method} ${route}`}</code> },
  { name: 'Number', by: (each) => each.count, isNumber: true, cell: (each) => count(each.count) },
  { name: '5xx', by: ({ failed }) => failed, isNumber: true, cell: ({ failed }) => count(failed) },
  { name: 'Mean', by: ({ mean_ms }) => mean_ms, isNumber: true, cell: ({ mean_ms }) => span(mean_ms) },
]

const SLOW: Column<Status['slow_statements'][number]>[] = [
  { name: 'At', by: ({ at }) => at, cell: ({ at }) => moment(at) },
  { name: 'Took', by: ({ ms }) => ms, isNumber: true, cell: ({ ms }) => span(ms) },
  { name: 'Status', cell: ({ status }) => status },
  { name: 'Cell', cell: ({ cell_id }) => <code class="id">{cell_id ?? ''}</code> },
  { name: 'Request id', cell: ({ request_id }) => <code class="id">{request_id}</code> },
]

const BUSIEST: Column<BusyCell>[] = [
  { name: 'Cell', cell: ({ id, name }) => name ?? <code class="id">{id}</code> },
  {
    name: 'Account',
    cell: ({ account_id }) => <code class="id">{account_id ?? ''}</code>,
  },
  {
    name: 'Operations',
    by: ({ operations: number }) => number,
    isNumber: true,
    cell: ({ operations: number }) => count(number),
  },
]

const FAILURES: Column<NodeFailure>[] = [
  { name: 'At', by: ({ at }) => at, cell: ({ at }) => moment(at) },
  { name: 'What', cell: ({ message, code }) => (code === null ? message : `${message} (${code})`) },
  { name: 'Why', cell: ({ why }) => why ?? '' },
  { name: 'Times', isNumber: true, by: (each) => each.count, cell: (each) => count(each.count) },
  { name: 'Request id', cell: ({ request_id }) => <code class="id">{request_id ?? ''}</code> },
]
