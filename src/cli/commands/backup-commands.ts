import type { Command } from 'commander'
import type { BackupPageDocument } from '../../http/answers/backup-answers.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { examples, formatBytes, formatTable, printResult } from '../output.ts'
import { allPages, runStoreCommand } from '../owner-command.ts'
import { addRemoteFlags } from '../remote/remote-flags.ts'
import { runTransfer } from '../transfer.ts'
import { addRetentionCommands } from './retention-commands.ts'
import { addVerify } from './verify-command.ts'

const STOPPED = `
While a node runs on the data directory, the command uses the node's object
store. Otherwise it opens the store itself and needs the same --object-store.
`

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
  addRemoteFlags(addStoreFlags(command))
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
      runStoreCommand(flags, async (client) => {
        const restored = await runTransfer(flags.json, (options) =>
          client.restore({ cell, version }, options),
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
    .description('Lists the backups of a cell, newest first. The cell may be deleted.')
    .argument('<cell>', 'the id or the name of the cell')
  addRemoteFlags(addStoreFlags(command))
    .addHelpText('after', STOPPED + examples('cellstore backups list "$CELL"'))
    .action((cell: string, flags: StoreFlags) =>
      runStoreCommand(flags, async (client) => {
        const all = await allPages(
          (cursor) => client.listBackups({ cell, cursor }),
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
