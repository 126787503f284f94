import type { Command } from 'commander'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { examples, formatBytes, formatTable, printNote, printResult } from '../output.ts'
import { allPages, runStoreCommand } from '../owner-command.ts'
import { addRemoteFlags } from '../remote/remote-flags.ts'
import type { CellPageDocument, CreateCellInput } from '../store-client.ts'
import { addExport, addImport } from './file-commands.ts'

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
    .addHelpText('after', examples('CELL=$(cellstore cells create --name acme)'))
  addRemoteFlags(addStoreFlags(command)).action(({ account, name, ...flags }: CreateCellInput & StoreFlags) =>
    runStoreCommand(flags, async (client) => {
      const cell = await client.createCell({ account, name })
      printResult(cell, flags.json, ({ id }) => id)
      if (cell.account_id !== undefined)
        printNote(flags.json, `The cell belongs to account ${cell.account_id}.`)
    }),
  )
}

function addList(cells: Command): void {
  const command = cells
    .command('list')
    .summary('list the cells, oldest first')
    .description('Lists the cells of every account, or of one, oldest first.')
    .option('--account <id>', 'only the cells of this account')
    .addHelpText(
      'after',
      examples('cellstore cells list', "cellstore cells list --json | jq -r '.databases[].id'"),
    )
  addRemoteFlags(addStoreFlags(command)).action(({ account, ...flags }: { account?: string } & StoreFlags) =>
    runStoreCommand(flags, async (client) => {
      const databases = await allPages(
        (cursor) => client.listCells({ account, cursor }),
        (page) => page.databases,
      )
      printResult({ databases, next_cursor: null }, flags.json, showCells)
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
    .description('Deletes a cell. Its backups stay, and `cellstore restore` can bring the cell back.')
    .argument('<cell>', 'the id or the name of the cell')
    .addHelpText('after', examples('cellstore cells delete "$CELL"'))
  addRemoteFlags(addStoreFlags(command)).action((cell: string, flags: StoreFlags) =>
    runStoreCommand(flags, async (client) => {
      const deleted = await client.deleteCell({ cell })
      printResult(deleted, flags.json, ({ id }) => `Deleted ${id}. Its backups, if any, stay.`)
    }),
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
