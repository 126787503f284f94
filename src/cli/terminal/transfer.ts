import cliProgress from 'cli-progress'
import type { BackupOptions, BackupProgressEvent } from '../../backup/versions/backup-types.ts'
import { systemClock } from '../../base/clock.ts'
import { CellError, isCellError } from '../../errors.ts'
import { formatBytes } from './output.ts'
import { EXIT_FAILED } from './report-error.ts'
import { StopSignals } from './stop-signals.ts'

const PHASES: Readonly<Record<BackupProgressEvent['phase'], string>> = {
  read: 'reading ',
  compress: 'packing ',
  upload: 'storing ',
  download: 'fetching',
}
const FORMAT = '{phase} [{bar}] {percentage}%  {done} of {all}  {rate}/s  {left}'

/** A rate over less time than this says nothing: a folder store links the spooled file, which takes no time. */
const RATE_AFTER_MS = 50

/**
 * Runs a backup or a restore: with progress bars on a terminal, and with Ctrl-C, which ends it and leaves nothing behind.
 *
 * @throws `shutting_down` after a signal
 */
export async function runTransfer<T>(
  json: boolean | undefined,
  run: (options: BackupOptions) => Promise<T>,
): Promise<T> {
  const bars = process.stderr.isTTY && json !== true ? new ProgressBars() : undefined
  const stop = new StopSignals(systemClock, () => process.exit(EXIT_FAILED))
  try {
    return await run({ signal: stop.signal, onProgress: (event) => bars?.show(event) })
  } catch (error) {
    if (!stop.signal.aborted || isCellError(error, 'shutting_down')) throw error
    throw new CellError('shutting_down', 'Interrupted.')
  } finally {
    bars?.end()
    stop.dispose()
  }
}

/** One bar for each phase, one below the other, on standard error. */
class ProgressBars {
  #bar: cliProgress.SingleBar | undefined
  #phase: string | undefined
  #startedAt = 0

  show({ phase, bytes, total, etaMs }: BackupProgressEvent): void {
    if (phase !== this.#phase) this.#begin(phase, total)
    const ms = Math.max(systemClock.monotonic() - this.#startedAt, RATE_AFTER_MS)
    const rate = formatBytes(Math.round((bytes / ms) * 1_000))
    this.#bar?.update(bytes, { done: formatBytes(bytes), rate, left: describeRest(etaMs) })
  }

  end(): void {
    this.#bar?.stop()
  }

  #begin(phase: BackupProgressEvent['phase'], total: number): void {
    this.end()
    this.#phase = phase
    this.#startedAt = systemClock.monotonic()
    this.#bar = new cliProgress.SingleBar(
      { format: FORMAT, stream: process.stderr, hideCursor: true },
      cliProgress.Presets.rect,
    )
    const all = formatBytes(total)
    this.#bar.start(total, 0, {
      phase: PHASES[phase],
      done: formatBytes(0),
      all,
      rate: formatBytes(0),
      left: '',
    })
  }
}

/** Padded, so that a shorter text covers the longer one before it. */
export function describeRest(etaMs: number | undefined): string {
  if (etaMs === undefined) return ''
  const seconds = Math.ceil(etaMs / 1_000)
  const text = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${text} left`.padEnd(18)
}
