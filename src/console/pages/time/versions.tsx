import type { AnswerOf, operations } from '../../../client/index.ts'
import { Failure } from '../../parts/failure.tsx'
import { age, bytes, moment } from '../../parts/format.ts'
import { PagedTable } from '../../parts/paged-table.tsx'
import { useLoad, useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import { shortName, type Version } from './history.ts'

type Retention = AnswerOf<operations['getRetention']>
type Verdict = Retention['versions'][number]

interface VersionsProps {
  /** Of the cell. */
  id: string
  versions: readonly Version[]
  onChoose: (version: Version) => void
}

/** The stored versions of a cell, and how long each stays. */
export function Versions({ id, versions, onChoose }: VersionsProps) {
  const { client, may } = useSession()
  const retention = useLoad((signal) => client.getRetention({ id }, { signal }), [id, versions.length])
  const pin = useWork(async (signal, version: string, isPinned: boolean) => {
    if (isPinned) await client.unpinBackup({ id, version }, { signal })
    else await client.pinBackup({ id, version }, { signal })
    retention.reload()
  })
  const verdicts = new Map(retention.data?.versions.map((each) => [each.version, each]))
  const isPinned = ({ version }: Version) => verdicts.get(version)?.reason === 'pinned'
  return (
    <section class="versions" aria-label="Versions">
      <h2>Versions</h2>
      <Failure error={retention.error} />
      <Failure error={pin.error} />
      <PagedTable
        label="Stored versions"
        rows={versions}
        keyOf={({ version }) => version}
        columns={[
          { name: 'Stored', by: (each) => each.created_at, cell: (each) => moment(each.created_at) },
          { name: 'Age', cell: (each) => age(each.created_at) },
          { name: 'Kind', by: (each) => each.kind, cell: (each) => each.kind },
          {
            name: 'Size',
            by: (each) => each.size_bytes,
            isNumber: true,
            cell: (each) => bytes(each.size_bytes),
          },
          { name: 'Stays', cell: (each) => stays(verdicts.get(each.version)) },
          { name: 'Version', cell: (each) => <code title={each.version}>{shortName(each.version)}</code> },
          {
            name: 'Actions',
            isQuiet: true,
            cell: (each) => (
              <span class="row-buttons">
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Choose ${shortName(each.version)}`}
                  onClick={() => onChoose(each)}
                >
                  Choose
                </button>
                {may.owner && (
                  <button
                    type="button"
                    class="quiet"
                    disabled={pin.isRunning}
                    aria-label={`${isPinned(each) ? 'Unpin' : 'Pin'} ${shortName(each.version)}`}
                    onClick={() => void pin.run(each.version, isPinned(each))}
                  >
                    {isPinned(each) ? 'Unpin' : 'Pin'}
                  </button>
                )}
              </span>
            ),
          },
        ]}
      />
      {retention.data !== undefined && (
        <p class="muted small">
          Versions stay by their age: <code>{retention.data.plan}</code>, and those that were requested with a
          key <code>{retention.data.tenant_plan}</code>. One that nothing keeps is marked, and goes a day
          later.
          {may.owner && ' One that is pinned stays until it is unpinned.'}
        </p>
      )}
    </section>
  )
}

const WHY: Readonly<Record<NonNullable<Verdict['reason']>, string>> = {
  pinned: 'pinned',
  current: 'the next incremental rests on it',
  proven: 'the last that was proven',
  unproven: 'no older one is proven',
  spare: 'in case a newer one is damaged',
  history: 'moments in time need it',
  damaged: 'as young as the plan reaches',
  needed: 'one that stays rests on it',
  plan: 'by the plan',
}

function stays(verdict: Verdict | undefined): string {
  if (verdict === undefined) return ''
  const { action, reason, step, marked_at } = verdict
  if (action === 'keep') return step === null ? WHY[reason ?? 'plan'] : `by ${step}`
  if (action === 'remove') return 'goes next'
  return marked_at === null ? 'goes in a day' : `goes a day after ${moment(marked_at)}`
}
