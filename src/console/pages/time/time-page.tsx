import { useState } from 'preact/hooks'
import { Empty, Failure } from '../../parts/failure.tsx'
import { Field } from '../../parts/field.tsx'
import { bytes, count, counted, moment, span } from '../../parts/format.ts'
import { Progress } from '../../parts/progress.tsx'
import { useLoad, useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import { now } from '../../session/browser-clock.ts'
import type { Undo } from '../../session/session.ts'
import { BranchDialog } from './branch-dialog.tsx'
import { beginningOf, type CellHistory, loadHistory, type Span, shortName } from './history.ts'
import { type Plan, planRestore, restoreInPlace, type Status, type Target } from './restoring.ts'
import { TimeLine } from './time-line.tsx'
import { Versions } from './versions.tsx'

const MINUTE_MS = 60_000
/** How far back the line goes; all that is stored, with 0. */
const WINDOWS = [
  [0, 'All'],
  [7 * 24 * 60 * MINUTE_MS, '7 days'],
  [24 * 60 * MINUTE_MS, '1 day'],
  [60 * MINUTE_MS, '1 hour'],
] as const
const STEPS = [
  [10_000, '10 s'],
  [MINUTE_MS, '1 min'],
  [60 * MINUTE_MS, '1 h'],
] as const

interface TimePageProps {
  id: string
  name: string | null
  isDeleted: boolean
  /** The cell has another state. */
  onChanged: () => void
}

/** The past of a cell, and the way back to it. */
export function TimePage({ id, name, isDeleted, onChanged }: TimePageProps) {
  const { client, may, undos } = useSession()
  const history = useLoad(
    async (signal) => ({ ...(await loadHistory(client, id, signal)), loadedAt: now() }),
    [id],
  )
  const [windowMs, setWindow] = useState(0)
  const [picked, setPicked] = useState<number>()
  const [version, setVersion] = useState<string>()
  const [plan, setPlan] = useState<Plan>()
  const [status, setStatus] = useState<Status>()
  const [undo, setUndo] = useState(undos.get(id))
  const [asksBranch, setAsksBranch] = useState(false)
  const loaded = history.data
  const loadedAt = loaded?.loadedAt ?? now()
  const at = picked ?? loaded?.spans.at(-1)?.to ?? loadedAt
  const target: Target = version === undefined ? { timestamp: new Date(at).toISOString() } : { version }
  const called = version === undefined ? moment(at) : shortName(version)
  const pick = (time: number) => {
    setPicked(Math.min(time, loadedAt))
    setVersion(undefined)
    setPlan(undefined)
  }
  const check = useWork(async (signal) => setPlan(await planRestore(client, id, target, signal)))
  const restore = useWork(async (signal, to: Target, isUndo: boolean) => {
    setStatus(undefined)
    const result = await restoreInPlace(client, id, to, { signal, onProgress: setStatus })
    const { replaced_at, timestamp } = result
    const next: Undo | undefined =
      isUndo || replaced_at === null ? undefined : { to: replaced_at, from: timestamp }
    if (next === undefined) undos.delete(id)
    else undos.set(id, next)
    setUndo(next)
    setPlan(undefined)
    setPicked(undefined)
    setVersion(undefined)
    history.reload()
    onChanged()
  })
  // The restore itself then says that it was canceled.
  const cancel = useWork(async (signal, restoreId: string) => {
    await client.cancelRestore({ id, restore_id: restoreId }, { signal })
  })
  const store = useWork(async (signal) => {
    await client.backup({ id }, { signal })
    history.reload()
    onChanged()
  })
  if (loaded === undefined)
    return history.error === undefined ? <p class="muted">Loading…</p> : <Failure error={history.error} />
  const beginning = beginningOf(loaded)
  const shown: Span = { from: windowFrom(beginning ?? loadedAt, loadedAt, windowMs), to: loadedAt }
  return (
    <div class="time">
      <Failure error={history.error} />
      {undo !== undefined && (
        <div class="notice" role="status">
          <p>
            The cell was restored{undo.from !== null && <> to {moment(undo.from)}</>}. What it held until{' '}
            {moment(undo.to)} can be brought back.
          </p>
          <button
            type="button"
            disabled={restore.isRunning}
            onClick={() => void restore.run({ timestamp: undo.to }, true)}
          >
            Undo the restore
          </button>
        </div>
      )}
      <div class="time-tools fields">
        <fieldset class="switch">
          <legend class="off-screen">How far back</legend>
          {WINDOWS.map(([ms, text]) => (
            <button key={ms} type="button" aria-pressed={ms === windowMs} onClick={() => setWindow(ms)}>
              {text}
            </button>
          ))}
        </fieldset>
        <span class="grow" />
        <button type="button" class="quiet" onClick={history.reload}>
          Reload
        </button>
        {may.write && !isDeleted && (
          <button type="button" disabled={store.isRunning} onClick={() => void store.run()}>
            {store.isRunning ? 'Storing…' : 'Store a version now'}
          </button>
        )}
      </div>
      <Failure error={store.error} />
      {beginning === undefined ? (
        <Empty title="Nothing of this cell is stored yet.">
          <p>
            The node stores what changes by itself, after seconds. Store a version now to have one at once.
          </p>
        </Empty>
      ) : (
        <>
          <TimeLine history={loaded} goesOn={!isDeleted} shown={shown} at={at} onPick={pick} />
          <div class="moment fields">
            <Field
              label="Moment"
              type="datetime-local"
              step={1}
              value={version === undefined ? forInput(at) : ''}
              onInput={(text) => {
                const time = Date.parse(text)
                if (!Number.isNaN(time)) pick(time)
              }}
            />
            <fieldset class="switch">
              <legend class="off-screen">Earlier by</legend>
              {STEPS.map(([ms, text]) => (
                <button key={ms} type="button" onClick={() => pick(at - ms)}>
                  −{text}
                </button>
              ))}
            </fieldset>
            {may.write && (
              <button
                type="button"
                class="primary"
                disabled={check.isRunning}
                onClick={() => void check.run()}
              >
                {check.isRunning ? 'Checking…' : 'See what a restore would do'}
              </button>
            )}
            <span class="muted">{version === undefined ? placeOf(loaded, at, loadedAt) : called}</span>
          </div>
          <Failure error={check.error} />
          {plan !== undefined && (
            <section class="plan-box" aria-label="What a restore would do">
              <dl class="figures">
                <Figure name="State of" value={moment(plan.timestamp ?? at)} />
                <Figure name="Version" value={`${shortName(plan.version)} (${plan.kind})`} />
                <Figure
                  name="Reads"
                  value={`${counted(plan.objects.length, 'object')}, ${bytes(plan.objects.reduce((sum, each) => sum + each.size_bytes, 0) + plan.log_size_bytes)}`}
                />
                <Figure name="Database" value={bytes(plan.size_bytes)} />
              </dl>
              <div class="fields">
                <button
                  type="button"
                  class="primary"
                  disabled={restore.isRunning}
                  onClick={() => void restore.run(target, false)}
                >
                  {isDeleted ? 'Bring the cell back' : 'Restore in place'}
                </button>
                {may.account && (
                  <button type="button" disabled={restore.isRunning} onClick={() => setAsksBranch(true)}>
                    Make a new cell of it
                  </button>
                )}
                <span class="muted">
                  A restore in place replaces what the cell holds now, and can be undone.
                </span>
              </div>
            </section>
          )}
          {restore.isRunning && (
            <Progress
              label={progressOf(status)}
              done={status?.bytes_done}
              total={status?.bytes_total}
              {...(status === undefined ? {} : { onCancel: () => void cancel.run(status.id) })}
            />
          )}
          <Failure error={restore.error} />
          <Failure error={cancel.error} />
          <Versions
            id={id}
            versions={loaded.versions}
            onChoose={(each) => {
              setVersion(each.version)
              setPicked(Date.parse(each.created_at))
              setPlan(undefined)
            }}
          />
        </>
      )}
      {asksBranch && (
        <BranchDialog
          id={id}
          target={target}
          called={called}
          suggested={name === null ? '' : `${name}-${called.replaceAll(/[ :]/g, '-')}`}
          onClose={() => setAsksBranch(false)}
        />
      )}
    </div>
  )
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}

function windowFrom(beginning: number, end: number, windowMs: number): number {
  // A moment before the first is shown too, so that the line has a length.
  const from = Math.min(beginning, end - 10_000)
  return windowMs === 0 ? from : Math.max(from, end - windowMs)
}

/** Whether the moment is stored, as far as the list says; the server knows. */
function placeOf({ spans, versions }: CellHistory, at: number, end: number): string {
  if (spans.some(({ from, to }) => from <= at && at <= to)) return 'can be restored to the second'
  if (at > (spans.at(-1)?.to ?? end)) return 'what was committed since is stored first'
  const before = versions.find(({ created_at }) => Date.parse(created_at) <= at)
  return before === undefined
    ? 'before all that is stored'
    : `in a gap: the version before is of ${moment(before.created_at)}`
}

function progressOf(status: Status | undefined): string {
  if (status?.bytes_total == null) return 'Restoring: waits for its turn'
  const eta = status.eta_ms === null ? '' : `, ${span(status.eta_ms)} left`
  return `Restoring: ${count(status.bytes_done)} of ${bytes(status.bytes_total)}${eta}`
}

/** As the input has it: in the time zone of whoever looks, without one. */
function forInput(at: number): string {
  return moment(at).replace(' ', 'T')
}
