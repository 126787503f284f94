import type { Command } from 'commander'
import type { BackupOptions } from '../../backup/versions/backup-types.ts'
import { type CellErrorCode, isCellError } from '../../errors.ts'
import type { CellDocument } from '../../http/routes/owner/owner-routes.ts'
import type { VerifyDocument } from '../../http/routes/owner/verify-actions.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import type { OwnerClient } from '../owner/owner-client.ts'
import { allCells, checkCellOrAll, runOwnerCommand, USAGE } from '../owner-command.ts'
import { cellLabel, examples, formatBytes, formatTable, printResult } from '../terminal/output.ts'
import { FailedResult } from '../terminal/report-error.ts'
import { runTransfer } from '../terminal/transfer.ts'

type VerifyFlags = { all?: true; version?: string; deep?: true } & StoreFlags

/** What came of one cell: proven, without a backup, or failed. */
type Outcome = Pick<VerifyDocument, 'id' | 'name'> &
  (
    | VerifyDocument
    | { proven: false; code: CellErrorCode; message: string; version: string | null; member: string | null }
    | { proven: null }
  )

export function addVerify(backups: Command): void {
  const command = backups
    .command('verify')
    .summary('prove that backups can be restored')
    .description(
      'Restores the newest backup of a cell, or of every cell and the catalog (after a restore the restored version, until there is a newer one), into a folder that is removed again: every checksum, the chain, and the check of SQLite must be right. Counts the rows. What is proven stays, whatever the plan says. Exits with 1 if a backup cannot be restored. With --all, the result names what failed, also with --json.',
    )
    .argument('[cell]', 'the id or the name of the cell; the id of the store for the catalog')
    .option('--all', 'every cell that is not deleted, and the catalog')
    .option(
      '--version <version>',
      'the version, as `backups list` prints it; by default the one that a total loss would bring back',
    )
    .option('--deep', 'also compare every index with its table: integrity_check in place of quick_check')
  addStoreFlags(command)
    .addHelpText(
      'after',
      examples('cellstore backups verify "$CELL"', 'cellstore backups verify --all --deep'),
    )
    .action((cell: string | undefined, flags: VerifyFlags) => {
      checkChoice(command, cell, flags)
      return runOwnerCommand(flags, (client) =>
        cell === undefined ? verifyAll(client, flags) : verifyOne(client, cell, flags),
      )
    })
}

function checkChoice(command: Command, cell: string | undefined, { all, version }: VerifyFlags): void {
  checkCellOrAll(command, cell, all)
  if (all !== undefined && version !== undefined)
    command.error('error: --version goes with one cell, not with --all', USAGE)
}

async function verifyOne(client: OwnerClient, cell: string, flags: VerifyFlags): Promise<void> {
  const { version, deep, json } = flags
  const proven = await runTransfer(json, (options) => client.verify({ cell, version, deep }, options))
  printResult(proven, json, (result) => {
    const rows = result.tables.map(({ name, rows: count }) => [name, String(count)])
    const table = rows.length === 0 ? '' : `${formatTable(['TABLE', 'ROWS'], rows)}\n`
    return `${table}${describe(result)}`
  })
}

/** Goes on after a failure: the summary says what failed. */
async function verifyAll(client: OwnerClient, { deep, json }: VerifyFlags): Promise<void> {
  const catalog = { id: (await client.store()).id, name: null }
  const cells = [catalog, ...(await allCells(client))]
  const outcomes: Outcome[] = []
  await runTransfer(json, async ({ signal }) => {
    for (const cell of cells) {
      const outcome = await outcomeOf(client, cell, deep, { signal })
      outcomes.push(outcome)
      if (json !== true) process.stdout.write(`${describe(outcome)}\n`)
    }
  })
  const count = (proven: boolean | null) => outcomes.filter((each) => each.proven === proven).length
  const summary = { proven: count(true), failed: count(false), without_backup: count(null) }
  printResult(
    { ...summary, databases: outcomes },
    json,
    ({ proven, failed, without_backup }) =>
      `${proven} proven, ${failed} failed, ${without_backup} without a backup`,
  )
  if (summary.failed > 0)
    throw new FailedResult(`${summary.failed} of ${outcomes.length} could not be proven.`)
}

async function outcomeOf(
  client: OwnerClient,
  { id, name }: Pick<CellDocument, 'id' | 'name'>,
  deep: true | undefined,
  options: BackupOptions,
): Promise<Outcome> {
  try {
    return await client.verify({ cell: id, deep }, options)
  } catch (error) {
    if (options.signal?.aborted || !isCellError(error)) throw error
    if (error.code === 'backup_not_found') return { id, name, proven: null }
    const { code, message, details } = error
    const { version = null, member = null } = details
    return { id, name, proven: false, code, message, version, member }
  }
}

function describe(outcome: Outcome): string {
  const who = cellLabel(outcome)
  if (outcome.proven === null) return `${who}: no backup`
  if (!outcome.proven) return `${who}: FAILED: ${outcome.message}`
  const { version, objects, size_bytes, table_count, row_count, duration_ms } = outcome
  const what = `${plural(objects.length, 'object')}, ${formatBytes(size_bytes)}, ${plural(table_count, 'table')}, ${plural(row_count, 'row')}`
  return `${who}: proven ${version} (${what}, ${(duration_ms / 1_000).toFixed(2)} s)`
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
