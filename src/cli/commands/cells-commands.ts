import type { Command } from 'commander'
import type { CreateCellInput } from '../admin/admin-service.ts'
import type { CellPageDocument } from '../admin/documents.ts'
import { allPages, runAdmin } from '../admin-command.ts'
import { examples } from '../examples.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { printNote, printResult } from '../output.ts'
import { formatTable } from '../text-table.ts'

export function addCellsCommands(program: Command): void {
  const cells = program
    .command('cells')
    .summary('make, list and delete cells')
    .description('A cell is a SQLite database of its own, used through SQL and through keys and values.')
  addCreate(cells)
  addList(cells)
  addDelete(cells)
}

function addCreate(cells: Command): void {
  const command = cells
    .command('create')
    .summary('make a cell, and print its id')
    .description(
      'Makes a cell and prints its id. Without --account it is a cell of the only account there is.',
    )
    .option('--account <id>', 'the account that the cell belongs to')
    .option('--name <name>', 'for people: need not be unique')
    .addHelpText('after', examples('CELL=$(cellstore cells create --name acme)'))
  addStoreFlags(command).action(({ account, name, ...flags }: CreateCellInput & StoreFlags) =>
    runAdmin(flags, async (admin) => {
      const cell = await admin.createCell({ account, name })
      printResult(cell, flags.json, ({ id }) => id)
      printNote(flags.json, `The cell belongs to account ${cell.account_id}.`)
    }),
  )
}

function addList(cells: Command): void {
  const command = cells
    .command('list')
    .summary('list the cells, oldest first')
    .description('Lists the cells in the order they were made: of every account, or of one.')
    .option('--account <id>', 'only the cells of this account')
    .addHelpText(
      'after',
      examples('cellstore cells list', "cellstore cells list --json | jq -r '.databases[].id'"),
    )
  addStoreFlags(command).action(({ account, ...flags }: { account?: string } & StoreFlags) =>
    runAdmin(flags, async (admin) => {
      const databases = await allPages(
        (cursor) => admin.listCells({ account, cursor }),
        (page) => page.databases,
      )
      printResult({ databases, next_cursor: null }, flags.json, showCells)
    }),
  )
}

function addDelete(cells: Command): void {
  const command = cells
    .command('delete')
    .summary('delete a cell; its backups stay')
    .description('Deletes a cell. Its backups stay, and `cellstore restore` brings it back from them.')
    .argument('<cell>', 'the id of the cell')
    .addHelpText('after', examples('cellstore cells delete "$CELL"'))
  addStoreFlags(command).action((cell: string, flags: StoreFlags) =>
    runAdmin(flags, async (admin) => {
      const deleted = await admin.deleteCell({ cell })
      printResult(deleted, flags.json, ({ id }) => `Deleted ${id}. Its backups, if any, stay.`)
    }),
  )
}

function showCells({ databases }: CellPageDocument): string {
  return formatTable(
    ['ID', 'NAME', 'CREATED', 'ACCOUNT'],
    databases.map(({ id, name, created_at, account_id }) => [id, name ?? '', created_at, account_id ?? '–']),
  )
}
