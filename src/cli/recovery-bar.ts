import cliProgress from 'cli-progress'
import { Eta } from '../backup/archiver/eta.ts'
import { systemClock } from '../base/clock.ts'
import { formatBytes } from './output.ts'
import { describeRest } from './transfer.ts'

const FORMAT = 'cells    [{bar}] {value} of {total}  {done}  {left}'
/** Cells are of all sizes, so their rate says something only over a longer time. */
const ETA_WINDOW_MS = 60_000

/** One bar for many cells, on standard error; nothing where that is no terminal. */
export class RecoveryBar {
  readonly #eta = new Eta(systemClock, ETA_WINDOW_MS)
  readonly #total: number
  readonly #bar: cliProgress.SingleBar | undefined
  #cells = 0
  #bytes = 0

  /** @param json whether the output is for a script */
  constructor(total: number, json: boolean | undefined) {
    this.#total = total
    if (!process.stderr.isTTY || json === true) return
    this.#bar = new cliProgress.SingleBar(
      { format: FORMAT, stream: process.stderr, hideCursor: true },
      cliProgress.Presets.rect,
    )
    this.#bar.start(total, 0, { done: formatBytes(0), left: '' })
  }

  /** One more cell is done; with how many bytes of data. */
  add(bytes: number): void {
    this.#cells++
    this.#bytes += bytes
    const etaMs = this.#eta.after({ phase: 'download', bytes: this.#cells, total: this.#total })
    this.#bar?.update(this.#cells, { done: formatBytes(this.#bytes), left: describeRest(etaMs) })
  }

  end(): void {
    this.#bar?.stop()
  }
}
