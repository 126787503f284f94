import { useState } from 'preact/hooks'
import { Failure } from '../../parts/failure.tsx'
import { age, count, counted, moment } from '../../parts/format.ts'
import { type Column, PagedTable } from '../../parts/paged-table.tsx'
import { useLoad } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import { CreateKey, type Key, NewKey, RevokeKey, RotateKey } from './key-dialogs.tsx'

type Asked = { kind: 'create' } | { kind: 'rotate' | 'revoke'; key: Key } | { kind: 'new'; value: string }

/** The keys of the account. */
export function KeysPage() {
  const { client, may, hint } = useSession()
  const [asked, setAsked] = useState<Asked>()
  const keys = useLoad((signal) => client.listApiKeys({}, { signal }), [])
  const close = () => setAsked(undefined)
  const made = (value: string) => {
    setAsked({ kind: 'new', value })
    keys.reload()
  }
  return (
    <main>
      <div class="head">
        <h1>Keys</h1>
        <span class="muted">{keys.data !== undefined && count(keys.data.length)}</span>
        <span class="grow" />
        {may.write && (
          <button type="button" class="primary" onClick={() => setAsked({ kind: 'create' })}>
            New key
          </button>
        )}
      </div>
      <Failure error={keys.error} />
      {keys.data !== undefined && (
        <PagedTable
          label="Keys"
          rows={keys.data}
          keyOf={({ id }) => id}
          columns={[
            ...columnsOf(hint),
            ...(may.write
              ? [
                  {
                    name: 'Actions',
                    isQuiet: true,
                    cell: (key: Key) => (
                      <span class="row-buttons">
                        {(['rotate', 'revoke'] as const).map((kind) => (
                          <button
                            key={kind}
                            type="button"
                            class="quiet"
                            aria-label={`${kind === 'rotate' ? 'Rotate' : 'Revoke'} ${key.name ?? key.hint}`}
                            onClick={() => setAsked({ kind, key })}
                          >
                            {kind === 'rotate' ? 'Rotate' : 'Revoke'}
                          </button>
                        ))}
                      </span>
                    ),
                  },
                ]
              : []),
          ]}
        />
      )}
      {asked?.kind === 'create' && <CreateKey onClose={close} onDone={made} />}
      {asked?.kind === 'rotate' && <RotateKey of={asked.key} onClose={close} onDone={made} />}
      {asked?.kind === 'revoke' && (
        <RevokeKey
          of={asked.key}
          onClose={close}
          onDone={() => {
            close()
            keys.reload()
          }}
        />
      )}
      {asked?.kind === 'new' && <NewKey value={asked.value} onClose={close} />}
    </main>
  )
}

function columnsOf(hint: string): Column<Key>[] {
  return [
    {
      name: 'Name',
      by: ({ name }) => name ?? '',
      cell: (key) => (
        <>
          {key.name ?? <span class="muted">no name</span>}
          {key.hint === hint && <span class="badge"> signed in</span>}
        </>
      ),
    },
    { name: 'Key', cell: (key) => <code>{key.hint}…</code> },
    { name: 'May', cell: (key) => scopeOf(key) },
    { name: 'Created', by: (key) => key.created_at, cell: (key) => age(key.created_at) },
    { name: 'Last used', by: (key) => key.last_used_at ?? '', cell: (key) => age(key.last_used_at) },
    {
      name: 'Expires',
      by: (key) => key.expires_at ?? '',
      cell: (key) => (key.expires_at == null ? 'never' : moment(key.expires_at)),
    },
  ]
}

function scopeOf({ access, surface, cell_ids }: Key): string {
  const what = access === 'owner' ? 'everything, as owner' : access === 'read' ? 'read' : 'read and write'
  const where = [surface === 'kv' ? 'entries' : '', cell_ids == null ? '' : counted(cell_ids.length, 'cell')]
  const narrowed = where.filter((each) => each !== '').join(' of ')
  return narrowed === '' ? what : `${what}: ${narrowed}`
}
