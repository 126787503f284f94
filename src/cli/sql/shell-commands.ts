import { nearestName } from '../../base/options/known-names.ts'
import { CellError } from '../../errors.ts'
import type { CallOptions, StoreClient } from '../store-client.ts'
import { formatTable, visible } from '../terminal/output.ts'
import { readScript, runScript, STANDARD_INPUT } from './run-script.ts'
import { formatResult, SQL_FORMATS, type SqlFormat } from './sql-formats.ts'

/** What a command of the shell works with. */
export interface ShellSession {
  readonly client: Pick<StoreClient, 'sql' | 'batch'>
  readonly cell: string
  format: SqlFormat
  /** Prints text, and a line's end. */
  print(text: string): void
  /** Ends the shell, once the command is done. */
  leave(): void
}

interface ShellCommand {
  /** Empty if it takes none. */
  argument: '' | '[table]' | '[format]' | '<file>'
  about: string
  run(session: ShellSession, argument: string, options: CallOptions): void | Promise<void>
}

/** The engine's own tables and SQLite's are no business of whoever looks around. */
const NOT_INTERNAL = "tbl_name NOT GLOB '_cell_*' AND name NOT GLOB 'sqlite_*'"
const TABLES = `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND ${NOT_INTERNAL} ORDER BY name`
const SCHEMA = `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND ${NOT_INTERNAL} AND (?1 IS NULL OR tbl_name = ?1 COLLATE NOCASE) ORDER BY rowid`

export const SHELL_COMMANDS: Readonly<Record<string, ShellCommand>> = {
  help: { argument: '', about: 'list these commands', run: (session) => session.print(helpText()) },
  mode: {
    argument: '[format]',
    about: `show or set how results are printed: ${SQL_FORMATS.join(', ')}`,
    run: setMode,
  },
  quit: { argument: '', about: 'leave; Ctrl-D does too', run: (session) => session.leave() },
  read: { argument: '<file>', about: 'run the statements of a file', run: readFile },
  schema: {
    argument: '[table]',
    about: 'show the CREATE statements of all tables, or of one',
    run: showSchema,
  },
  tables: { argument: '', about: 'list the tables and views', run: listTables },
}

/**
 * Runs a line that starts with a dot.
 *
 * @throws `invalid_request` for one that is not known, with the nearest name, and what the command throws
 */
export async function runShellCommand(
  session: ShellSession,
  line: string,
  options: CallOptions = {},
): Promise<void> {
  const [, name = '', rest = ''] = /^\.(\S*)\s*(.*?)\s*;?$/s.exec(line.trim()) ?? []
  const command = Object.hasOwn(SHELL_COMMANDS, name) ? SHELL_COMMANDS[name] : undefined
  if (command === undefined) throw unknownCommand(name)
  const argument = rest.replace(/^(["'])(.*)\1$/, '$2')
  if (argument === '' && command.argument.startsWith('<'))
    throw new CellError('invalid_request', `.${name} takes a ${command.argument}.`)
  if (argument !== '' && command.argument === '')
    throw new CellError('invalid_request', `.${name} takes nothing after its name.`)
  await command.run(session, argument, options)
}

function unknownCommand(name: string): CellError {
  const near = nearestName(name, Object.keys(SHELL_COMMANDS))
  const mend = near === undefined ? '.help lists the commands.' : `Did you mean .${near}?`
  return new CellError('invalid_request', `There is no command .${name}. ${mend}`)
}

function helpText(): string {
  const rows = Object.entries(SHELL_COMMANDS).map(([name, { argument, about }]) => [
    `.${name} ${argument}`.trimEnd(),
    about,
  ])
  return `Statements end with a semicolon, and may have several lines. Ctrl-C drops what you typed.
A line that starts with a dot is a command:
${formatTable(['COMMAND', 'WHAT IT DOES'], rows)}`
}

function setMode(session: ShellSession, argument: string): void {
  const format = SQL_FORMATS.find((each) => each === argument)
  if (argument !== '' && format === undefined)
    throw new CellError('invalid_request', `A format is one of ${SQL_FORMATS.join(', ')}.`)
  if (format === undefined) session.print(session.format)
  else session.format = format
}

async function readFile(session: ShellSession, file: string, options: CallOptions): Promise<void> {
  if (file === STANDARD_INPUT)
    throw new CellError('invalid_request', 'The shell reads standard input already. Name a file.')
  for await (const result of runScript(session.client, session.cell, await readScript(file), options)) {
    const text = formatResult(result, session.format, { isTerminal: true })
    if (text !== undefined) session.print(text)
  }
}

async function listTables(
  { client, cell, print }: ShellSession,
  _: string,
  options: CallOptions,
): Promise<void> {
  const { rows } = await client.sql({ cell, sql: TABLES }, options)
  for (const row of rows as { name: string }[]) print(visible(row.name))
}

async function showSchema(
  { client, cell, print }: ShellSession,
  table: string,
  options: CallOptions,
): Promise<void> {
  const { rows } = await client.sql({ cell, sql: SCHEMA, params: [table === '' ? null : table] }, options)
  if (rows.length === 0 && table !== '') throw new CellError('sql_error', `There is no table ${table}.`)
  for (const row of rows as { sql: string }[]) print(`${row.sql.split('\n').map(visible).join('\n')};`)
}
