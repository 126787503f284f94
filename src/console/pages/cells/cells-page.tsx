import { useRef, useState } from 'preact/hooks'
import { Empty, Failure } from '../../parts/failure.tsx'
import { age, bytes, count } from '../../parts/format.ts'
import { type Column, PagedTable } from '../../parts/paged-table.tsx'
import { goTo, hrefTo } from '../../parts/router.ts'
import { useLoad } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import { CreateCell, DeleteCell, type NamedCell, RenameCell } from './cell-dialogs.tsx'
import { cellsWith, type ListedCell, loadCells } from './cell-list.ts'
import { ExportCell } from './export-cell.tsx'
import { ImportCell } from './import-cell.tsx'

type Asked =
  | { kind: 'create' }
  | { kind: 'rename' | 'delete' | 'export'; cell: NamedCell }
  | { kind: 'import'; file: File }

/** The cells of the account. */
export function CellsPage() {
  const { client, may } = useSession()
  const [text, setText] = useState('')
  const [deleted, setDeleted] = useState(false)
  const [asked, setAsked] = useState<Asked>()
  const [soFar, setSoFar] = useState<readonly ListedCell[]>([])
  const [isOver, setOver] = useState(false)
  const picker = useRef<HTMLInputElement>(null)
  const cells = useLoad((signal) => loadCells(client, { deleted, signal, onPage: setSoFar }), [deleted])
  const all = cells.data ?? soFar
  const shown = cellsWith(all, text)
  const take = (file: File | undefined) => {
    if (file !== undefined) setAsked({ kind: 'import', file })
  }
  const done = () => {
    setAsked(undefined)
    cells.reload()
  }
  return (
    <main
      class={isOver ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        if (!may.write) return
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault()
        setOver(false)
        if (may.write) take(event.dataTransfer?.files[0])
      }}
    >
      <div class="head">
        <h1>Cells</h1>
        <span class="muted" aria-live="polite">
          {text.trim() === '' ? count(all.length) : `${count(shown.length)} of ${count(all.length)}`}
          {cells.isLoading && ' · loading…'}
        </span>
        <span class="grow" />
        <fieldset class="switch">
          <legend class="off-screen">Which cells</legend>
          {[false, true].map((which) => (
            <button
              key={String(which)}
              type="button"
              aria-pressed={deleted === which}
              onClick={() => {
                setSoFar([])
                setDeleted(which)
              }}
            >
              {which ? 'Deleted' : 'Live'}
            </button>
          ))}
        </fieldset>
        <input
          type="search"
          class="search"
          aria-label="Search by name or id"
          placeholder="Search by name or id"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        {may.write && !deleted && (
          <>
            <input
              ref={picker}
              type="file"
              class="off-screen"
              tabIndex={-1}
              aria-label="SQLite file to import"
              onChange={(event) => {
                take(event.currentTarget.files?.[0])
                event.currentTarget.value = ''
              }}
            />
            <button type="button" onClick={() => picker.current?.click()}>
              Import…
            </button>
            <button type="button" class="primary" onClick={() => setAsked({ kind: 'create' })}>
              New cell
            </button>
          </>
        )}
      </div>
      <Failure error={cells.error} />
      {shown.length > 0 && (
        <PagedTable
          label={deleted ? 'Deleted cells' : 'Cells'}
          rows={shown}
          keyOf={({ id }) => id}
          columns={deleted ? deletedColumns() : liveColumns(may.write, setAsked)}
        />
      )}
      {shown.length === 0 && !cells.isLoading && cells.error === undefined && (
        <NoCells isSearch={text.trim() !== ''} deleted={deleted} write={may.write} />
      )}
      {asked?.kind === 'create' && (
        <CreateCell onClose={() => setAsked(undefined)} onDone={(cell) => goTo('cells', cell.id, 'sql')} />
      )}
      {asked?.kind === 'rename' && (
        <RenameCell cell={asked.cell} onClose={() => setAsked(undefined)} onDone={done} />
      )}
      {asked?.kind === 'delete' && (
        <DeleteCell cell={asked.cell} onClose={() => setAsked(undefined)} onDone={done} />
      )}
      {asked?.kind === 'export' && <ExportCell cell={asked.cell} onClose={() => setAsked(undefined)} />}
      {asked?.kind === 'import' && (
        <ImportCell
          file={asked.file}
          onClose={() => setAsked(undefined)}
          onDone={(cell) => goTo('cells', cell.id, 'sql')}
        />
      )}
    </main>
  )
}

function NoCells({ isSearch, deleted, write }: { isSearch: boolean; deleted: boolean; write: boolean }) {
  if (isSearch) return <Empty title="No cell has this in its name or id." />
  if (deleted) return <Empty title="No cell was deleted." />
  return (
    <Empty title="There are no cells yet.">
      {write ? (
        <p>
          A cell is a database of its own. Make one with <b>New cell</b>, or drop a SQLite file here.
        </p>
      ) : (
        <p>This key may only read. A key that may write makes cells.</p>
      )}
    </Empty>
  )
}

const nameColumn: Column<ListedCell> = {
  name: 'Name',
  by: ({ name }) => name ?? '',
  cell: ({ id, name }) => (
    <a href={hrefTo('cells', id, 'sql')} class="cell-name" title={name ?? id}>
      {name ?? <span class="muted">no name</span>}
    </a>
  ),
}

const idColumn: Column<ListedCell> = {
  name: 'Id',
  by: ({ id }) => id,
  cell: ({ id }) => <code class="id">{id}</code>,
}

function liveColumns(write: boolean, ask: (asked: Asked) => void): Column<ListedCell>[] {
  return [
    nameColumn,
    idColumn,
    { name: 'Size', by: (cell) => cell.size_bytes, isNumber: true, cell: (cell) => bytes(cell.size_bytes) },
    {
      name: 'State',
      by: (cell) => cell.status ?? '',
      cell: ({ status }) => (
        <span class={status === 'quarantined' ? 'badge bad' : 'badge good'}>{status ?? ''}</span>
      ),
    },
    timeColumn('Created', (cell) => cell.created_at),
    timeColumn('Last stored', (cell) => cell.last_stored_at),
    timeColumn('Last proven', (cell) => cell.last_proven?.proven_at),
    {
      name: 'Actions',
      isQuiet: true,
      cell: (cell) => (
        <span class="row-buttons">
          <RowButton cell={cell} name="Export" onClick={() => ask({ kind: 'export', cell })} />
          {write && <RowButton cell={cell} name="Rename" onClick={() => ask({ kind: 'rename', cell })} />}
          {write && <RowButton cell={cell} name="Delete" onClick={() => ask({ kind: 'delete', cell })} />}
        </span>
      ),
    },
  ]
}

function deletedColumns(): Column<ListedCell>[] {
  return [
    nameColumn,
    idColumn,
    timeColumn('Deleted', (cell) => ('deleted_at' in cell ? String(cell.deleted_at) : null)),
    timeColumn('Last stored', (cell) => cell.last_stored_at),
    {
      name: 'Actions',
      isQuiet: true,
      cell: ({ id, name }) => (
        <a href={hrefTo('cells', id, 'time')} aria-label={`Bring back ${name ?? id}`}>
          Bring back
        </a>
      ),
    },
  ]
}

function timeColumn(name: string, of: (cell: ListedCell) => string | null | undefined): Column<ListedCell> {
  return {
    name,
    by: (cell) => of(cell) ?? '',
    cell: (cell) => <span title={of(cell) ?? undefined}>{age(of(cell))}</span>,
  }
}

function RowButton({ cell, name, onClick }: { cell: NamedCell; name: string; onClick: () => void }) {
  return (
    <button type="button" class="quiet" aria-label={`${name} ${cell.name ?? cell.id}`} onClick={onClick}>
      {name}
    </button>
  )
}
