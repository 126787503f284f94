import { useState } from 'preact/hooks'
import type { AnswerOf, operations } from '../../../client/index.ts'
import { isProblem } from '../../../client/index.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { Failure } from '../../parts/failure.tsx'
import { age, bytes } from '../../parts/format.ts'
import { goTo, hrefTo } from '../../parts/router.ts'
import { useLoad } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import { KvPage } from '../kv/kv-page.tsx'
import { SqlPage } from '../sql/sql-page.tsx'
import { TimePage } from '../time/time-page.tsx'
import { DeleteCell, RenameCell } from './cell-dialogs.tsx'
import { ExportCell } from './export-cell.tsx'

type Cell = AnswerOf<operations['getCell']>
type Asked = 'rename' | 'delete' | 'export'

const PARTS = [
  ['sql', 'SQL'],
  ['kv', 'KV'],
  ['time', 'Time'],
] as const

/** One cell, and what can be done with it. */
export function CellPage({ id, part }: { id: string; part: string | undefined }) {
  const { client, may } = useSession()
  const [asked, setAsked] = useState<Asked>()
  const cell = useLoad(
    async (signal) => (may.sql ? await client.getCell({ id }, { signal }) : undefined),
    [id],
  )
  const isDeleted = isProblem(cell.error, 'cell_not_found')
  const shown = !may.sql ? 'kv' : isDeleted ? 'time' : (PARTS.find(([each]) => each === part)?.[0] ?? 'sql')
  const close = () => setAsked(undefined)
  const named = { id, name: cell.data?.name ?? null }
  return (
    <main>
      <div class="head">
        {may.account && (
          <a href={hrefTo('cells')} class="back">
            Cells
          </a>
        )}
        <h1 class="cell-title" title={named.name ?? id}>
          {named.name ?? (cell.data === undefined ? id : 'no name')}
        </h1>
        {cell.data !== undefined && <State cell={cell.data} />}
        <span class="grow" />
        <CopyButton label="Copy id" text={() => id} />
        {may.sql && !isDeleted && (
          <button type="button" class="quiet" onClick={() => setAsked('export')}>
            Export
          </button>
        )}
        {may.account && may.write && !isDeleted && (
          <>
            <button type="button" class="quiet" onClick={() => setAsked('rename')}>
              Rename
            </button>
            <button type="button" class="quiet" onClick={() => setAsked('delete')}>
              Delete
            </button>
          </>
        )}
      </div>
      {isDeleted ? (
        <div class="notice">
          <p>There is no such cell. If it was deleted, its backups can bring it back.</p>
        </div>
      ) : (
        <Failure error={cell.error} />
      )}
      <nav class="tabs" aria-label="Parts of the cell">
        {PARTS.filter(([each]) => (isDeleted ? each === 'time' : each === 'kv' || may.sql)).map(
          ([each, name]) => (
            <a key={each} href={hrefTo('cells', id, each)} aria-current={each === shown ? 'page' : undefined}>
              {name}
            </a>
          ),
        )}
      </nav>
      {shown === 'sql' && <SqlPage id={id} sizeBytes={cell.data?.size_bytes} onChanged={cell.reload} />}
      {shown === 'kv' && <KvPage id={id} />}
      {shown === 'time' && (
        <TimePage id={id} name={named.name} isDeleted={isDeleted} onChanged={cell.reload} />
      )}
      {asked === 'rename' && (
        <RenameCell
          cell={named}
          onClose={close}
          onDone={() => {
            close()
            cell.reload()
          }}
        />
      )}
      {asked === 'delete' && <DeleteCell cell={named} onClose={close} onDone={() => goTo('cells')} />}
      {asked === 'export' && <ExportCell cell={named} onClose={close} />}
    </main>
  )
}

function State({ cell }: { cell: Cell }) {
  return (
    <span class="facts">
      <span class={cell.status === 'ok' ? 'badge good' : 'badge bad'}>{cell.status}</span>
      {cell.quarantine !== undefined && <span>{cell.quarantine.reason}</span>}
      <span>{bytes(cell.size_bytes)}</span>
      <span title={cell.last_stored_at ?? undefined}>stored {age(cell.last_stored_at)}</span>
      <span title={cell.last_proven?.proven_at}>proven {age(cell.last_proven?.proven_at)}</span>
    </span>
  )
}
