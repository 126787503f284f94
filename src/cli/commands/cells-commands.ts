import type { Command } from 'commander'
import { CellError } from '../../errors.ts'
import { addStoreFlags, atOption, type MomentFlags, type StoreFlags } from '../flags.ts'
import { allPages, runStoreCommand } from '../owner-command.ts'
import { addRemoteFlags } from '../remote/remote-flags.ts'
import type { CellPageDocument } from '../store-client.ts'
import { examples, formatBytes, formatTable, printNote, printResult } from '../terminal/output.ts'
import { runTransfer } from '../terminal/transfer.ts'
import { addExport, addImport } from './file-commands.ts'

type CreateFlags = MomentFlags & { account?: string; name?: string; from?: string }
type ListFlags = { account?: string; deleted?: true }

export function addCellsCommands(program: Command): void {
  const cells = program
    .command('cells')
    .summary('make, list, rename, export, import and delete cells')
    .description('A cell is a SQLite database. Use it through SQL, and through keys and values.')
  addCreate(cells)
  addList(cells)
  addRename(cells)
  addExport(cells)
  addImport(cells)
  addDelete(cells)
}

function addCreate(cells: Command): void {
  const command = cells
    .command('create')
    .summary('make a cell, and print its id')
    .description(
      'Makes a cell and prints its id. If the store has only one account, the cell belongs to it; otherwise --account is needed.',
    )
    .option('--account <id>', 'the account that the cell belongs to')
    .option('--name <name>', 'a name, which no other cell of the account has')
    .option(
      '--from <cell>',
      'give it the state of this cell, by its id or name, from its backups; a deleted one has only its id',
    )
    .option(
      '--version <version>',
      'with --from, the version, as `backups list` prints it; default: as the other cell is now',
    )
    .addOption(atOption('with --from, the state at a time'))
    .addHelpText(
      'after',
      examples(
        'CELL=$(cellstore cells create --name acme)',
        'cellstore cells create --from acme --at -1h --name acme-an-hour-ago',
      ),
    )
  addRemoteFlags(addStoreFlags(command)).action(({ account, name, ...given }: CreateFlags & StoreFlags) => {
    const { from, version, at: timestamp, ...flags } = given
    return runStoreCommand(flags, async (client) => {
      if (from === undefined && (version ?? timestamp) !== undefined) throw withoutSource(version)
      const input = { account, name, from, version, timestamp }
      const cell =
        from === undefined
          ? await client.createCell(input)
          : await runTransfer(flags.json, (options) => client.createCell(input, options))
      printResult(cell, flags.json, ({ id }) => id)
      if (cell.account_id !== undefined)
        printNote(flags.json, `The cell belongs to account ${cell.account_id}.`)
    })
  })
}

function withoutSource(version: string | undefined): CellError {
  const field = version === undefined ? 'at' : 'version'
  return new CellError('invalid_setting', `--${field} says which state of a cell: use it with --from.`, {
    field,
  })
}

function addList(cells: Command): void {
  const command = cells
    .command('list')
    .summary('list the cells, oldest first')
    .description('Lists the cells of every account, or of one, oldest first.')
    .option('--account <id>', 'only the cells of this account')
    .option('--deleted', 'the cells that were deleted, in place of those that exist')
    .addHelpText(
      'after',
      examples('cellstore cells list', "cellstore cells list --json | jq -r '.databases[].id'"),
    )
  addRemoteFlags(addStoreFlags(command)).action(({ account, deleted, ...flags }: ListFlags & StoreFlags) =>
    runStoreCommand(flags, async (client) => {
      const databases = await allPages(
        (cursor) => client.listCells({ account, deleted, cursor }),
        (page) => page.databases,
      )
      printResult({ databases, next_cursor: null }, flags.json, deleted ? showDeleted : showCells)
    }),
  )
}

function addRename(cells: Command): void {
  const command = cells
    .command('rename')
    .summary('give a cell another name')
    .description('Gives a cell another name, or none. No other cell of the account may have it.')
    .argument('<cell>', 'the id or the name of the cell')
    .argument('[name]', 'the new name; none if it is left out')
    .addHelpText('after', examples('cellstore cells rename acme acme-2025'))
  addRemoteFlags(addStoreFlags(command)).action((cell: string, name: string | undefined, flags: StoreFlags) =>
    runStoreCommand(flags, async (client) => {
      const renamed = await client.renameCell({ cell, name: name ?? null })
      const shown = name === undefined ? 'has no name now' : `is called ${name} now`
      printResult(renamed, flags.json, ({ id }) => `${id} ${shown}.`)
    }),
  )
}

function addDelete(cells: Command): void {
  const command = cells
    .command('delete')
    .summary('delete a cell; its backups stay')
    .description(
      'Deletes a cell. Its last state is backed up first, for at most 5 s. Its backups stay, and `cellstore restore` can bring the cell back.',
    )
    .argument('<cell>', 'the id or the name of the cell')
    .addHelpText('after', examples('cellstore cells delete "$CELL"'))
  addRemoteFlags(addStoreFlags(command)).action((cell: string, flags: StoreFlags) =>
    runStoreCommand(flags, async (client) => {
      const deleted = await client.deleteCell({ cell })
      printResult(
        deleted,
        flags.json,
        ({ id }) => `Deleted ${id}. Its backups, if any, stay: \`cellstore restore ${id}\` brings it back.`,
      )
    }),
  )
}

function showDeleted({ databases }: CellPageDocument): string {
  return formatTable(
    ['ID', 'NAME', 'CREATED', 'DELETED', 'ACCOUNT'],
    databases.map(({ id, name, created_at, deleted_at, account_id }) => [
      id,
      name ?? '',
      created_at,
      deleted_at ?? '',
      account_id === undefined ? 'yours' : (account_id ?? '–'),
    ]),
  )
}

function showCells({ databases }: CellPageDocument): string {
  return formatTable(
    ['ID', 'NAME', 'SIZE', 'CREATED', 'BACKED UP TO', 'LAST PROVEN', 'ACCOUNT'],
    databases.map(({ id, name, size_bytes, created_at, backed_up_to, last_proven, account_id }) => [
      id,
      name ?? '',
      formatBytes(size_bytes),
      created_at,
      backed_up_to ?? 'never',
      last_proven?.proven_at ?? 'never',
      account_id === undefined ? 'yours' : (account_id ?? '–'),
    ]),
  )
}
