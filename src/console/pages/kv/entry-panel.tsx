import { useEffect, useState } from 'preact/hooks'
import { type AnswerOf, isProblem, type operations } from '../../../client/index.ts'
import { Empty, Failure } from '../../parts/failure.tsx'
import { bytes } from '../../parts/format.ts'
import { useLoad, useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import { ticks } from '../../session/browser-clock.ts'
import { ExpireDialog } from './expire-dialog.tsx'
import { prettyJson } from './pretty-json.ts'
import { TimeLeft } from './time-left.tsx'

type Entry = NonNullable<AnswerOf<operations['kvMget']>['entries'][number]>

interface EntryPanelProps {
  id: string
  entryKey: string
  /** Another number: the entry was touched. */
  version: number
  onDeleted: () => void
}

/** One entry: shown, edited, and deleted. What others do to it meanwhile is shown, and never overwritten unseen. */
export function EntryPanel({ id, entryKey: key, version, onDeleted }: EntryPanelProps) {
  const { client, may } = useSession()
  /** The entry that the draft began with. */
  const [base, setBase] = useState<Entry>()
  const [draft, setDraft] = useState('')
  /** What somebody else has made of it since; null: they deleted it. */
  const [theirs, setTheirs] = useState<Entry | null>()
  const [asksTime, setAsksTime] = useState(false)
  const loaded = useLoad(
    async (signal) => {
      const { entries } = await client.kvMget({ id, keys: [key] }, { signal })
      return { entry: entries[0] ?? null, at: ticks() }
    },
    [id, key],
  )
  const entry = loaded.data?.entry
  const isDirty = base !== undefined && draft !== base.value
  const begin = (from: Entry) => {
    setBase(from)
    setDraft(from.value)
    setTheirs(undefined)
  }
  useEffect(() => {
    if (version > 0) loaded.reload()
  }, [version])
  useEffect(() => {
    if (entry === undefined) return
    if (!isDirty && entry !== null) begin(entry)
    else if (isDirty && entry?.version !== base?.version) setTheirs(entry)
  }, [loaded.data])

  const save = useWork(async (signal, ifVersion: string | null) => {
    const put = { key, value: draft, keep_ttl: true, if_version: ifVersion }
    try {
      await client.kvMset({ id, entries: [put] }, { signal })
    } catch (error) {
      if (!isProblem(error, 'precondition_failed')) throw error
      const { entries } = await client.kvMget({ id, keys: [key] }, { signal })
      setTheirs(entries[0] ?? null)
      return
    }
    setTheirs(undefined)
    setBase((last) => (last === undefined ? last : { ...last, value: draft }))
    loaded.reload()
  })
  const remove = useWork(async (signal) => {
    const isPath = key !== '.' && key !== '..'
    const headers = base === undefined ? {} : { 'if-match': `"${base.version}"` }
    if (isPath) await client.kvDelete({ id, key }, { signal, headers })
    else await client.kvDeleteMany({ id, keys: [key] }, { signal })
    onDeleted()
  })

  if (loaded.data === undefined)
    return loaded.error === undefined ? <p class="muted">Loading…</p> : <Failure error={loaded.error} />
  if (entry === null && !isDirty)
    return <Empty title="There is no such entry any more.">It was deleted, or its time was over.</Empty>
  const pretty = prettyJson(draft)
  return (
    <section class="entry" aria-label={`Entry ${key}`}>
      <h2 class="entry-key">
        <code>{key}</code>
      </h2>
      <div class="facts">
        <span>{bytes(new TextEncoder().encode(draft).length)}</span>
        {entry != null && (
          <TimeLeft seconds={entry.ttl_seconds} since={loaded.data.at} onOver={loaded.reload} />
        )}
        <span title={`version ${entry?.version}`}>{pretty === undefined ? 'text' : 'JSON'}</span>
      </div>
      {theirs !== undefined && (
        <div class="notice" role="alert">
          <p>
            <b>
              {theirs === null
                ? 'Somebody else has deleted this entry.'
                : 'Somebody else has changed this entry.'}
            </b>{' '}
            Your text is not saved.
          </p>
          {theirs !== null && (
            <textarea class="code" readOnly rows={4} aria-label="Their value" value={theirs.value} />
          )}
          <div class="fields">
            <button type="button" onClick={() => (theirs === null ? onDeleted() : begin(theirs))}>
              Take theirs
            </button>
            <button type="button" onClick={() => void save.run(theirs?.version ?? null)}>
              Save mine over it
            </button>
          </div>
        </div>
      )}
      <textarea
        class="code entry-value"
        aria-label="Value"
        readOnly={!may.write}
        spellcheck={false}
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
      />
      <div class="fields entry-buttons">
        {may.write && (
          <button
            type="button"
            class="primary"
            disabled={!isDirty || save.isRunning || theirs !== undefined}
            onClick={() => void save.run(base?.version ?? null)}
          >
            Save
          </button>
        )}
        {isDirty && (
          <button type="button" onClick={() => begin(base)}>
            Undo
          </button>
        )}
        <button
          type="button"
          disabled={pretty === undefined || pretty === draft}
          onClick={() => setDraft(pretty ?? draft)}
        >
          Format JSON
        </button>
        {may.write && (
          <>
            <span class="grow" />
            <button type="button" class="quiet" onClick={() => setAsksTime(true)}>
              Time to live…
            </button>
            <button type="button" class="quiet" disabled={remove.isRunning} onClick={() => void remove.run()}>
              Delete
            </button>
          </>
        )}
      </div>
      <Failure error={save.error ?? remove.error} />
      {asksTime && (
        <ExpireDialog
          id={id}
          entryKey={key}
          onClose={() => setAsksTime(false)}
          onDone={() => {
            setAsksTime(false)
            loaded.reload()
          }}
        />
      )}
    </section>
  )
}
