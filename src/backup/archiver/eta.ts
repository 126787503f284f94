import type { Clock } from '../../base/clock.ts'
import type { BackupProgressEvent } from '../versions/backup-types.ts'

/** The rate of this time counts: it follows a line that becomes slower, and does not jump with each chunk. */
const WINDOW_MS = 10_000
const SAMPLE_EVERY_MS = 500
/** Nobody sees more than this, and each event is a message between two processes. */
const EVENT_EVERY_MS = 100

interface Sample {
  atMs: number
  bytes: number
}

/** How long the rest of a phase will take, at the rate of its last seconds. */
export class Eta {
  readonly #clock: Clock
  readonly #windowMs: number
  #phase: string | undefined
  #samples: Sample[] = []

  constructor(clock: Clock, windowMs = WINDOW_MS) {
    this.#clock = clock
    this.#windowMs = windowMs
  }

  /** @returns milliseconds; undefined while nothing is known */
  after({ phase, bytes, total }: BackupProgressEvent): number | undefined {
    if (phase !== this.#phase) this.#samples = []
    this.#phase = phase
    const atMs = this.#clock.monotonic()
    const last = this.#samples.at(-1)
    if (last === undefined || atMs - last.atMs >= SAMPLE_EVERY_MS) this.#samples.push({ atMs, bytes })
    while ((this.#samples[1]?.atMs ?? atMs) <= atMs - this.#windowMs) this.#samples.shift()
    const [first] = this.#samples
    if (first === undefined || atMs - first.atMs < SAMPLE_EVERY_MS || bytes <= first.bytes) return undefined
    return Math.round(((total - bytes) * (atMs - first.atMs)) / (bytes - first.bytes))
  }
}

/** Tells of the first and the last event of a phase and of some in between, each with how long the rest of the phase will take. */
export function withEta(
  onProgress: ((event: BackupProgressEvent) => void) | undefined,
  clock: Clock,
): ((event: BackupProgressEvent) => void) | undefined {
  if (onProgress === undefined) return undefined
  const eta = new Eta(clock)
  let last: { phase: string; atMs: number } | undefined
  return (event) => {
    const { phase, bytes, total } = event
    const etaMs = eta.after(event)
    const atMs = clock.monotonic()
    if (last?.phase === phase && bytes < total && atMs - last.atMs < EVENT_EVERY_MS) return
    last = { phase, atMs }
    onProgress({ ...event, etaMs })
  }
}
