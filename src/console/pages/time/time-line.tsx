import { moment } from '../../parts/format.ts'
import type { CellHistory, Span } from './history.ts'

const SECOND_MS = 1_000
const WIDTH = 1_000
const HEIGHT = 48

interface TimeLineProps {
  history: CellHistory
  /** Whether the cell is there: what it has committed since the last of it was stored can be stored, and restored. */
  goesOn: boolean
  shown: Span
  at: number
  onPick: (at: number) => void
}

/** All that is stored of a cell, on one line: the moments that can be restored, the gaps, and the versions. */
export function TimeLine({ history, goesOn, shown, at, onPick }: TimeLineProps) {
  const length = Math.max(1, shown.to - shown.from)
  const place = (time: number) => ((time - shown.from) / length) * WIDTH
  const spans = history.spans.filter(({ from, to }) => to >= shown.from && from <= shown.to)
  const versions = history.versions.filter(({ created_at }) => Date.parse(created_at) >= shown.from)
  const last = history.spans.at(-1)
  const open = goesOn && last !== undefined ? Math.max(0, place(last.to)) : undefined
  return (
    <div class="time-line">
      <div class="time-band">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {spans.map(({ from, to }) => {
            const x = Math.max(0, place(from))
            return (
              <rect
                key={from}
                class="time-span"
                x={x}
                y={18}
                width={Math.max(1.5, place(to) - x)}
                height={22}
              />
            )
          })}
          {open !== undefined && (
            <rect class="time-open" x={open} y={18} width={Math.max(0, WIDTH - open)} height={22} />
          )}
          {versions.map(({ version, kind, created_at }) => (
            <rect
              key={version}
              class="time-version"
              x={place(Date.parse(created_at)) - 0.75}
              y={kind === 'snapshot' ? 4 : 11}
              width={1.5}
              height={kind === 'snapshot' ? 36 : 29}
            />
          ))}
        </svg>
        <input
          type="range"
          aria-label="Moment"
          aria-valuetext={moment(at)}
          min={Math.floor(shown.from / SECOND_MS)}
          max={Math.ceil(shown.to / SECOND_MS)}
          value={Math.round(at / SECOND_MS)}
          onInput={(event) => onPick(Number(event.currentTarget.value) * SECOND_MS)}
        />
      </div>
      <div class="time-ends muted">
        <span>{moment(shown.from)}</span>
        <span>{moment(shown.to)}</span>
      </div>
      <p class="time-key muted small">
        <span class="swatch span" /> to the second <span class="swatch open" /> stored first, if it changed{' '}
        <span class="swatch gap" /> gap: versions only <span class="swatch version" /> version
      </p>
    </div>
  )
}
