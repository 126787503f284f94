import { useRef, useState } from 'preact/hooks'
import { Empty } from '../../parts/failure.tsx'
import { counted } from '../../parts/format.ts'
import { useSession } from '../../parts/use-session.ts'
import { after } from '../../session/browser-clock.ts'
import { CreateEntry } from './create-entry.tsx'
import { DeleteEntries } from './delete-entries.tsx'
import { EntryPanel } from './entry-panel.tsx'
import { KvTree } from './kv-tree.tsx'
import { useChanges } from './use-changes.ts'

/** Commits that come one after the other make the tree load once. */
const SETTLE_MS = 250
/** How many changed keys are marked; more than anybody would look at. */
const MARKED = 1_000

type Asked = { kind: 'create' } | { kind: 'delete'; which: { keys: readonly string[] } | { prefix: string } }

/** The key-value entries of a cell. */
export function KvPage({ id }: { id: string }) {
  const { client, may } = useSession()
  const [prefix, setPrefix] = useState('')
  const [version, setVersion] = useState(0)
  const [open, setOpen] = useState<string>()
  const [touched, setTouched] = useState(0)
  const [changed, setChanged] = useState<ReadonlySet<string>>(new Set())
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set())
  const [isEmpty, setEmpty] = useState(false)
  const [asked, setAsked] = useState<Asked>()
  const settling = useRef<(() => void) | undefined>(undefined)
  const reload = () => {
    settling.current?.()
    settling.current = after(SETTLE_MS, () => setVersion((last) => last + 1))
  }
  const isLive = useChanges(id, may.sql, (event) => {
    const keys = event.type === 'commit' ? event.keys : null
    if (keys?.length === 0) return
    if (event.type === 'reset' && event.reason === 'start') return
    reload()
    if (open !== undefined && (keys === null || keys.includes(open))) setTouched((last) => last + 1)
    if (keys !== null) setChanged((last) => new Set([...last, ...keys].slice(-MARKED)))
  })
  const close = () => setAsked(undefined)
  return (
    <div class="kv">
      <div class="kv-keys">
        <div class="fields kv-tools">
          <input
            type="search"
            class="code"
            aria-label="Prefix of the keys"
            placeholder="Prefix, such as user:"
            value={prefix}
            onInput={(event) => {
              setPrefix(event.currentTarget.value)
              setVersion((last) => last + 1)
            }}
          />
          {may.write && (
            <button type="button" class="primary" onClick={() => setAsked({ kind: 'create' })}>
              New entry
            </button>
          )}
        </div>
        <div class="kv-state">
          {may.sql && <span class={isLive ? 'badge good' : 'badge'}>{isLive ? 'live' : 'not live'}</span>}
          {changed.size > 0 && <span class="muted">{counted(changed.size, 'key')} changed since</span>}
          <span class="grow" />
          {!isLive && (
            <button type="button" class="quiet" onClick={reload}>
              Reload
            </button>
          )}
          {may.write && !isEmpty && (
            <button
              type="button"
              class="quiet"
              onClick={() =>
                setAsked({ kind: 'delete', which: ticked.size > 0 ? { keys: [...ticked] } : { prefix } })
              }
            >
              {ticked.size > 0 ? `Delete ${counted(ticked.size, 'entry', 'entries')}` : 'Delete all…'}
            </button>
          )}
        </div>
        <nav aria-label="Keys" class="kv-list">
          <KvTree
            key={prefix}
            source={{ client, id, sql: may.sql }}
            prefix={prefix}
            version={version}
            open={open}
            changed={changed}
            ticked={ticked}
            canTick={may.write}
            onOpen={setOpen}
            onTick={(key, isOn) =>
              setTicked((last) => new Set(isOn ? [...last, key] : [...last].filter((each) => each !== key)))
            }
            onEmpty={setEmpty}
          />
          {isEmpty && (
            <p class="muted">{prefix === '' ? 'There are no entries yet.' : 'No key begins with this.'}</p>
          )}
        </nav>
      </div>
      <div class="kv-entry">
        {open === undefined ? (
          <Empty title={isEmpty && prefix === '' ? 'There are no entries yet.' : 'No entry is open.'}>
            <p>{isEmpty && may.write ? 'Make one with New entry.' : 'Choose a key on the left.'}</p>
          </Empty>
        ) : (
          <EntryPanel
            key={open}
            id={id}
            entryKey={open}
            version={touched}
            onDeleted={() => {
              setOpen(undefined)
              reload()
            }}
          />
        )}
      </div>
      {asked?.kind === 'create' && (
        <CreateEntry
          id={id}
          prefix={prefix}
          onClose={close}
          onDone={(key) => {
            close()
            setOpen(key)
            reload()
          }}
        />
      )}
      {asked?.kind === 'delete' && (
        <DeleteEntries
          id={id}
          which={asked.which}
          onClose={() => {
            close()
            reload()
          }}
          onDone={() => {
            close()
            setTicked(new Set())
            setOpen(undefined)
            reload()
          }}
        />
      )}
    </div>
  )
}
