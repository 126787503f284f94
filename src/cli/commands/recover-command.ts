import cliProgress from 'cli-progress'
import type { Command } from 'commander'
import { Eta } from '../../backup/archiver/eta.ts'
import { mapLimit } from '../../base/async/map-limit.ts'
import { systemClock } from '../../base/clock.ts'
import { type CellErrorCode, isCellError } from '../../errors.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import type { OwnerClient } from '../owner/owner-client.ts'
import { allPages, checkCellOrAll, runOwnerCommand } from '../owner-command.ts'
import { cellLabel, examples, formatBytes, printResult } from '../terminal/output.ts'
import { FailedResult } from '../terminal/report-error.ts'
import { describeRest, runTransfer } from '../terminal/transfer.ts'

type RecoverFlags = { all?: true } & StoreFlags

/** What came of one cell. */
type Outcome = { id: string; name: string | null } & (
  | { recovered: true; size_bytes: number }
  | { recovered: false; code: CellErrorCode; message: string }
)

/** One less than a node restores at a time by default: the requests that it serves need not wait. */
const AT_ONCE = 3

const MORE = `
While a node runs on the data directory, the node restores the cells; it does so
in the background anyway (serve --recovery), and requests come first. Otherwise
the command opens the store itself. With --all and an object store that is named
(--object-store or CELLSTORE_OBJECT_STORE), an empty data directory gets back the
store whose backups are there, unless another node uses it.
`

export function addRecoverCommand(program: Command): void {
  const command = program
    .command('recover')
    .summary('bring back the cells whose local data is lost')
    .description(
      'Restores a cell, or every cell, whose data is not on this machine, from its newest backup. Cells whose data is here stay as they are. Exits with 1 if a cell could not be restored; with --all, the others are, and the result names those that failed, also with --json.',
    )
    .argument('[cell]', 'the id or the name of the cell')
    .option('--all', 'every cell that is not deleted; brings back the store itself if it is lost')
  addStoreFlags(command)
    .addHelpText(
      'after',
      MORE +
        examples(
          'cellstore recover --all',
          `cellstore recover --all --data-dir /var/lib/cells \\
      --object-store 's3://backups/cells?region=eu-central-1'`,
          'cellstore recover "$CELL"',
        ),
    )
    .action((cell: string | undefined, { all, ...flags }: RecoverFlags) => {
      checkCellOrAll(command, cell, all)
      return cell === undefined
        ? runOwnerCommand(flags, (client) => recoverAll(client, flags.json), { bringsBack: true })
        : runOwnerCommand(flags, (client) => recoverOne(client, cell, flags.json))
    })
}

async function recoverOne(client: OwnerClient, cell: string, json: true | undefined): Promise<void> {
  const result = await runTransfer(json, ({ signal }) => client.recover({ cell }, { signal }))
  printResult(result, json, ({ recovered, size_bytes, duration_ms }) =>
    recovered
      ? `Recovered, ${formatBytes(size_bytes)} in ${seconds(duration_ms)}.`
      : `The cell's data is on this machine already, ${formatBytes(size_bytes)}.`,
  )
}

/** Goes on after a failure: the summary says what failed. */
async function recoverAll(client: OwnerClient, json: true | undefined): Promise<void> {
  const cells = await allPages(
    (cursor) => client.listCells({ cursor }),
    (page) => page.databases,
  )
  // A cell that is here has a file, and no file of a cell is empty.
  const lost = cells.filter(({ size_bytes }) => size_bytes === 0)
  const began = performance.now()
  const outcomes = await recoverEach(client, lost, json)
  const failed = outcomes.filter((each) => !each.recovered)
  const recovered = outcomes.filter((each) => each.recovered)
  const summary = {
    recovered: recovered.length,
    failed: failed.length,
    here_before: cells.length - lost.length,
    bytes: recovered.reduce((sum, { size_bytes }) => sum + size_bytes, 0),
    duration_ms: Math.round(performance.now() - began),
  }
  printResult({ ...summary, databases: outcomes }, json, () => {
    const lines = failed.map((cell) => `${cellLabel(cell)}: FAILED: ${cell.code}: ${cell.message}`)
    const { recovered: count, bytes, duration_ms, here_before } = summary
    const took = `${formatBytes(bytes)} in ${seconds(duration_ms)}`
    return [...lines, `${count} recovered (${took}), ${failed.length} failed, ${here_before} were here`].join(
      '\n',
    )
  })
  if (failed.length > 0)
    throw new FailedResult(`${failed.length} of ${outcomes.length} cells could not be recovered.`)
}

/** A few at a time. */
async function recoverEach(
  client: OwnerClient,
  lost: readonly { id: string; name: string | null }[],
  json: true | undefined,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const bar = new RecoveryBar(lost.length, json)
  try {
    await runTransfer(json, async ({ signal }) => {
      await mapLimit(lost, AT_ONCE, async (cell) => {
        const outcome = await outcomeOf(client, cell, signal)
        if (outcome === undefined) return
        outcomes.push(outcome)
        bar.add(outcome.recovered ? outcome.size_bytes : 0)
      })
    })
  } finally {
    bar.end()
  }
  return outcomes
}

/** @returns undefined if the cell was deleted since */
async function outcomeOf(
  client: OwnerClient,
  { id, name }: { id: string; name: string | null },
  signal: AbortSignal | undefined,
): Promise<Outcome | undefined> {
  try {
    signal?.throwIfAborted()
    const { size_bytes } = await client.recover({ cell: id }, { signal })
    return { id, name, recovered: true, size_bytes }
  } catch (error) {
    if (signal?.aborted || !isCellError(error)) throw error
    // Of the store and not of the cell: each further one would fail alike.
    if (error.kind === 'closed' || error.code === 'shutting_down') throw error
    if (error.code === 'cell_not_found') return undefined
    return { id, name, recovered: false, code: error.code, message: error.message }
  }
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(2)} s`
}

const FORMAT = 'cells    [{bar}] {value} of {total}  {done}  {left}'
/** Cells are of all sizes, so their rate says something only over a longer time. */
const ETA_WINDOW_MS = 60_000

/** One bar for many cells, on standard error; nothing where that is no terminal. */
class RecoveryBar {
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
