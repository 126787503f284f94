import type { Command } from 'commander'
import type { BackupPageDocument } from '../admin/documents.ts'
import { allPages, runAdmin } from '../admin-command.ts'
import { formatBytes } from '../byte-size.ts'
import { examples } from '../examples.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { printResult } from '../output.ts'
import { formatTable } from '../text-table.ts'
import { runTransfer } from '../transfer.ts'

const STOPPED = `
While a node runs on the data directory, the node's own object store is used.
Otherwise the command opens the store itself: give it the same --object-store.
`

export function addBackupCommands(program: Command): void {
  addBackup(program)
  addRestore(program)
  const backups = program
    .command('backups')
    .summary('list the backups of a cell')
    .description(
      'Backups are objects in the object store; each is a version that the cell can be restored to.',
    )
  addList(backups)
}

function addBackup(program: Command): void {
  const command = program
    .command('backup')
    .summary('back a cell up to the object store')
    .description('Stores a snapshot of a cell as one object. Writers go on meanwhile.')
    .argument('<cell>', 'the id of the cell')
    .option('--incremental', 'store only what changed since its newest backup')
  addStoreFlags(command)
    .addHelpText(
      'after',
      STOPPED + examples('cellstore backup "$CELL"', 'cellstore backup "$CELL" --incremental --json'),
    )
    .action((cell: string, { incremental, ...flags }: { incremental?: true } & StoreFlags) =>
      runAdmin(flags, async (admin) => {
        const kind = incremental ? 'incremental' : 'snapshot'
        const backup = await runTransfer(flags.json, (transfer) => admin.backup({ cell, kind }, transfer))
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
      'Restores a cell to a version, also a deleted one and one whose local data is lost. Until the restored data is complete and checked the old serves; if anything is wrong, nothing changes.',
    )
    .argument('<cell>', 'the id of the cell')
    .option('--version <version>', 'the version, as `backups list` shows it; the newest by default')
  addStoreFlags(command)
    .addHelpText(
      'after',
      STOPPED +
        examples(
          'cellstore restore "$CELL"',
          `cellstore restore "$CELL" --version \\
      "$(cellstore backups list "$CELL" --json | jq -r '.backups[1].version')"`,
        ),
    )
    .action((cell: string, { version, ...flags }: { version?: string } & StoreFlags) =>
      runAdmin(flags, async (admin) => {
        const restored = await runTransfer(flags.json, (transfer) =>
          admin.restore({ cell, version }, transfer),
        )
        const { size_bytes, duration_ms } = restored
        printResult(
          restored,
          flags.json,
          () => `Restored ${restored.version}, ${took(size_bytes, duration_ms)}.`,
        )
      }),
    )
}

function addList(backups: Command): void {
  const command = backups
    .command('list')
    .summary('list the backups of a cell, newest first')
    .description('Lists the backups of a cell, newest first; of a deleted one, too.')
    .argument('<cell>', 'the id of the cell')
  addStoreFlags(command)
    .addHelpText('after', STOPPED + examples('cellstore backups list "$CELL"'))
    .action((cell: string, flags: StoreFlags) =>
      runAdmin(flags, async (admin) => {
        const all = await allPages(
          (cursor) => admin.listBackups({ cell, cursor }),
          (page) => page.backups,
        )
        printResult({ backups: all, next_cursor: null }, flags.json, showBackups)
      }),
    )
}

function showBackups({ backups }: BackupPageDocument): string {
  return formatTable(
    ['VERSION', 'KIND', 'SIZE', 'CREATED'],
    backups.map(({ version, kind, size_bytes, created_at }) => [
      version,
      kind,
      formatBytes(size_bytes),
      created_at,
    ]),
  )
}

function took(bytes: number, ms: number): string {
  return `${formatBytes(bytes)} in ${(ms / 1_000).toFixed(2)} s`
}
