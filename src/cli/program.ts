import { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import { nearestName } from '../base/options/known-names.ts'
import { addAccountsCommands } from './commands/accounts-commands.ts'
import { addBackupCommands } from './commands/backup-commands.ts'
import { addCellsCommands } from './commands/cells-commands.ts'
import { addClusterCommands } from './commands/cluster-commands.ts'
import { addKeysCommands } from './commands/keys-commands.ts'
import { addRecoverCommand } from './commands/recover-command.ts'
import { addServeCommand } from './commands/serve-command.ts'
import { addSqlCommand } from './commands/sql-command.ts'
import { addStatusCommand } from './commands/status-command.ts'
import { refuseUnknownVariables } from './environment.ts'
import { addRefusedUrl, checkPlace } from './remote/remote-flags.ts'
import { examples } from './terminal/output.ts'
import { WrongUsage } from './terminal/report-error.ts'

const HELP = 'help'

const MORE = `
Commands work on the store in --data-dir (CELLSTORE_DATA_DIR, ./data by
default). While a node serves the store, commands ask the node through a socket
that only its owner can use. Otherwise they open the store themselves.

keys, cells, sql, backup, restore and backups list also work on a remote node:
with --url (CELLSTORE_URL), and an API key in CELLSTORE_KEY, for its account.

Exit codes: 0 done; 1 failed, with a sentence on standard error; 2 the command
line or a setting is wrong. With --json, standard output is one JSON document
with the field names of the HTTP interface, or an error is {"code", "message"}
on standard error: one of the two.
`

const EXAMPLES = examples(
  'cellstore serve',
  'cellstore keys create --name laptop',
  'CELL=$(cellstore cells create --name acme)',
  `cellstore sql "$CELL" 'CREATE TABLE notes (text TEXT)'`,
  `cellstore sql "$CELL" 'INSERT INTO notes VALUES (?)' 'remember me'`,
  'cellstore backup "$CELL"',
  'cellstore backups list "$CELL"',
  'cellstore restore "$CELL"',
  'cellstore status',
  'cellstore help serve',
)

/** The whole command line. It throws errors; its caller reports them. */
export function buildProgram(): Command {
  const program = new Command('cellstore')
    .description(
      'A SQLite database for every tenant, user or agent: served over HTTP, backed up to a folder or to S3.',
    )
    .version(packageJson.version, '-V, --version', 'print the version')
    .exitOverride()
    // Otherwise `restore --version` would print cellstore's own version.
    .enablePositionalOptions()
    .configureOutput({ outputError: () => {} })
    .configureHelp({ visibleCommands: commandsBelow, subcommandTerm: termOf })
    .addHelpText('after', MORE + EXAMPLES)
    .on('command:*', ([name = '']: string[]) => refuseCommand(program, name))
    // Not before: help is for those whose settings are wrong.
    .hook('preAction', (_, command) => {
      if (command.name() === HELP) return
      refuseUnknownVariables(process.env)
      checkPlace(command)
    })
  addServeCommand(program)
  addKeysCommands(program)
  addAccountsCommands(program)
  addCellsCommands(program)
  addSqlCommand(program)
  addBackupCommands(program)
  addRecoverCommand(program)
  addStatusCommand(program)
  addClusterCommands(program)
  addRefusedUrl(program)
  nameInErrors(program)
  return addHelpOfAnyCommand(program)
}

/** What commander throws does not say which command it is about. */
function nameInErrors(group: Command): void {
  for (const command of group.commands) {
    const name = [...groupsOf(command), command.name()].join(' ')
    command.exitOverride((error) => {
      throw new WrongUsage(error, name)
    })
    nameInErrors(command)
  }
}

/** Commander's own `help` looks no deeper than `help backups`, and takes any name for the program's. */
function addHelpOfAnyCommand(program: Command): Command {
  program.command(`${HELP} [command...]`, { hidden: true }).action((words: string[]) => {
    const found = words.reduce(
      (group, word) => group.commands.find((each) => each.name() === word) ?? refuseCommand(group, word),
      program,
    )
    found.help()
  })
  return program
}

/** Commander would suggest what its help lists: commands of groups, which do not work without the group's name. */
function refuseCommand(group: Command, name: string): never {
  const near = nearestName(
    name,
    group.commands.map((each) => each.name()),
  )
  const suggestion = near === undefined ? '' : `. Did you mean ${near}?`
  return group.error(`error: unknown command '${name}'${suggestion}`, { code: 'commander.unknownCommand' })
}

/** All commands, where commander would show only the groups: the first help has every command. */
function commandsBelow(command: Command): Command[] {
  const children = command.commands.filter((child) => child.name() !== HELP)
  return children.flatMap((child) => (child.commands.length === 0 ? [child] : commandsBelow(child)))
}

function termOf(command: Command): string {
  const words = command.registeredArguments.map((argument) =>
    argument.required ? `<${argument.name()}>` : `[${argument.name()}${argument.variadic ? '…' : ''}]`,
  )
  return [...groupsOf(command), command.name(), ...words].join(' ')
}

function groupsOf({ parent }: Command): string[] {
  return parent === null || parent.parent === null ? [] : [...groupsOf(parent), parent.name()]
}
