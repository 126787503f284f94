import type { Command } from 'commander'
import type {
  BackupPageDocument,
  RestoreDocument,
  RestorePlanDocument,
} from '../../http/answers/backup-answers.ts'
import { addStoreFlags, atOption, type MomentFlags, type StoreFlags } from '../flags.ts'
import { allPages, runStoreCommand } from '../owner-command.ts'
import { addRemoteFlags } from '../remote/remote-flags.ts'
import { examples, formatBytes, formatTable, printResult } from '../terminal/output.ts'
import { runTransfer } from '../terminal/transfer.ts'
import { addRetentionCommands } from './retention-commands.ts'
import { addVerify } from './verify-command.ts'

const STOPPED = `
While a node runs on the data directory, the command uses the node's object
store. Otherwise it opens the store itself and needs the same --object-store.
`

type RestorableRange = BackupPageDocument['restorable'][number]
type RestoreFlags = MomentFlags & { dryRun?: true }

export function addBackupCommands(program: Command): void {
  addBackup(program)
  addRestore(program)
  const backups = program
    .command('backups')
    .summary('list backups, and decide which of them stay')
    .description(
      'Backups are objects in the object store. Each one is a version to which the cell can be restored.',
    )
  addList(backups)
  addVerify(backups)
  addRetentionCommands(backups)
}

function addBackup(program: Command): void {
  const command = program
    .command('backup')
    .summary('back a cell up to the object store')
    .description('Stores a snapshot of a cell as one object. Writers do not wait for it.')
    .argument('<cell>', 'the id or the name of the cell')
    .option('--incremental', 'store only what changed since the newest backup')
  addRemoteFlags(addStoreFlags(command))
    .addHelpText(
      'after',
      STOPPED + examples('cellstore backup "$CELL"', 'cellstore backup "$CELL" --incremental --json'),
    )
    .action((cell: string, { incremental, ...flags }: { incremental?: true } & StoreFlags) =>
      runStoreCommand(flags, async (client) => {
        const kind = incremental ? 'incremental' : 'snapshot'
        const backup = await runTransfer(flags.json, (options) => client.backup({ cell, kind }, options))
        const { version, size_bytes, duration_ms } = backup
        printResult(backup, flags.json, () => `${version}\n${backup.kind}, ${took(size_bytes, duration_ms)}`)
      }),
    )
}

function addRestore(program: Command): void {
  const command = program
    .command('restore')
    .summary('restore a cell from the object store')
    .description(
      'Restores a cell to a version, even if the cell is deleted or its local data is lost. The old data serves until the restored data is complete and checked. If the restore fails, nothing changes.',
    )
    .argument('<cell>', 'the id or the name of the cell')
    .option('--version <version>', 'the version, as `backups list` prints it; the newest by default')
    .addOption(atOption('restore the cell as it was at a time'))
    .option('--dry-run', 'restore nothing: print what would be restored, and from which objects')
  addRemoteFlags(addStoreFlags(command))
    .addHelpText(
      'after',
      STOPPED +
        examples(
          'cellstore restore "$CELL"',
          'cellstore restore "$CELL" --at -10m',
          `cellstore restore "$CELL" --version \\
      "$(cellstore backups list "$CELL" --json | jq -r '.backups[1].version')"`,
        ),
    )
    .action((cell: string, { version, at: timestamp, dryRun, ...flags }: RestoreFlags & StoreFlags) =>
      runStoreCommand(flags, async (client) => {
        const input = { cell, version, timestamp }
        if (dryRun) return printResult(await client.planRestore(input), flags.json, showPlan)
        const restored = await runTransfer(flags.json, (options) => client.restore(input, options))
        printResult(restored, flags.json, showRestored)
      }),
    )
}

function showRestored({ version, timestamp, replaced_at, ...rest }: RestoreDocument): string {
  const [, cell] = version.split('/')
  const at = timestamp === null ? '' : `, the cell as it was at ${timestamp}`
  const undo = replaced_at === null ? '' : `\nTo undo it: cellstore restore ${cell} --at ${replaced_at}`
  return `Restored ${version}${at}, ${took(rest.size_bytes, rest.duration_ms)}.${undo}`
}

function showPlan({ version, timestamp, objects, size_bytes }: RestorePlanDocument): string {
  const about = `Would restore ${version}, the cell as it was at ${timestamp}, and read ${formatBytes(size_bytes)}:`
  const rows = objects.map(({ key, size_bytes: bytes }) => [key, formatBytes(bytes)])
  return `${about}\n${formatTable(['OBJECT', 'BYTES READ'], rows)}`
}

function addList(backups: Command): void {
  const command = backups
    .command('list')
    .summary('list the backups of a cell, newest first')
    .description(
      'Lists the backups of a cell that can be restored, newest first. `backups prune --dry-run` shows the others too. The cell may be deleted.',
    )
    .argument('<cell>', 'the id or the name of the cell')
  addRemoteFlags(addStoreFlags(command))
    .addHelpText('after', STOPPED + examples('cellstore backups list "$CELL"'))
    .action((cell: string, flags: StoreFlags) =>
      runStoreCommand(flags, async (client) => {
        const restorable: RestorableRange[] = []
        const backups = await allPages(
          async (cursor) => {
            const page = await client.listBackups({ cell, cursor })
            joinRanges(restorable, page.restorable)
            return page
          },
          (page) => page.backups,
        )
        printResult({ backups, next_cursor: null, restorable }, flags.json, showBackups)
      }),
    )
}

/** A range of a page may go on where the newest one of the next page ends. Both are newest first. */
function joinRanges(ranges: RestorableRange[], older: readonly RestorableRange[]): void {
  for (const range of older) {
    const last = ranges.at(-1)
    if (last !== undefined && Date.parse(range.to) >= Date.parse(last.from)) last.from = range.from
    else ranges.push({ ...range })
  }
}

function showBackups({ backups, restorable }: BackupPageDocument): string {
  const times = restorable.map(({ from, to }) => `\n${from} to ${to}`)
  const rest =
    times.length === 0
      ? ''
      : `\n\nEach moment of these times can be restored (restore --at):${times.join('')}`
  const table = formatTable(
    ['VERSION', 'KIND', 'SIZE', 'CREATED'],
    backups.map(({ version, kind, size_bytes, created_at }) => [
      version,
      kind,
      formatBytes(size_bytes),
      created_at,
    ]),
  )
  return table + rest
}

function took(bytes: number, ms: number): string {
  return `${formatBytes(bytes)} in ${(ms / 1_000).toFixed(2)} s`
}
