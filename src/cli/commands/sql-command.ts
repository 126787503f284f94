import { isatty } from 'node:tty'
import type { Command } from 'commander'
import packageJson from '../../../package.json' with { type: 'json' }
import { CellError, isCellError } from '../../errors.ts'
import { parseJson } from '../../service/json/exact-json.ts'
import type { SqlDocument } from '../../service/json/sql-answers.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { runStoreCommand, USAGE } from '../owner-command.ts'
import { addRemoteFlags } from '../remote/remote-flags.ts'
import { History } from '../sql/history.ts'
import { readScript, runScript, type Script, STANDARD_INPUT } from '../sql/run-script.ts'
import { formatResult, type SqlFormat } from '../sql/sql-formats.ts'
import type { StoreClient } from '../store-client.ts'
import { examples, printNote } from '../terminal/output.ts'

const MORE = `
A parameter that JSON would take for a number is one: 42 becomes an integer, 1.5
and 1e3 become reals. null becomes NULL, and everything else text. --text makes
all of them text. --json-params takes any value, as JSON of the HTTP interface:
'["42", 3.5, {"type":"blob","base64":"AAE="}]', or an object for named
placeholders.

Scripts (--file, standard input) run a statement at a time, up to the first
error. What ran before it stays, and the error names the statement and its line.
What stands between BEGIN and COMMIT runs as one: all of it or nothing. With
--json the output is {"results": [...]}.

What sqlite3 app.db .dump writes runs as one, too: its foreign keys are judged
at the end. A dump with virtual tables, or one that is too large, is imported:
cells import takes the database itself.

Without a statement, at a terminal, the command is a shell: .help lists its
commands. It keeps its history in ~/.cellstore_history, for you alone, or in the
file that CELLSTORE_HISTORY names. If that is empty, it keeps none.
`

const EXAMPLES = examples(
  `cellstore sql "$CELL" 'CREATE TABLE users (name TEXT, age INTEGER)'`,
  `cellstore sql "$CELL" 'INSERT INTO users VALUES (?, ?)' Ann 31`,
  `cellstore sql "$CELL" 'SELECT * FROM users WHERE age > ?' 30 --csv`,
  `cellstore sql "$CELL" --file schema.sql --file data.sql`,
  `cellstore sql "$CELL" < script.sql`,
  `cellstore sql "$CELL" 'SELECT * FROM cell_kv' --url https://cells.example.com`,
  `cellstore sql "$CELL"`,
)

interface SqlFlags extends StoreFlags {
  jsonParams?: string
  text?: true
  file?: string[]
  csv?: true
}

export function addSqlCommand(program: Command): void {
  const command = takingComments(program.command('sql'))
    .summary('run statements on a cell, or a shell')
    .description(
      'Runs one SQL statement on a cell and prints its rows, or a script, or what a person types. The rules and limits for statements are those of the HTTP interface.',
    )
    .argument('<cell>', 'the id or the name of the cell')
    .argument('[sql]', 'the statement, with ? for parameters; without it, or with -, standard input is read')
    .argument('[params...]', 'the parameters, in order')
    .option('--json-params <json>', 'the parameters as JSON, instead of [params...]')
    .option('--text', 'bind every one of [params...] as text, numbers and null too')
    .option(
      '--file <file>',
      'run the statements of a file; may be repeated, and - is standard input',
      (file: string, before: string[] = []) => [...before, file],
    )
    .option('--csv', 'print the rows as CSV, with a line of names; NULL is empty and empty text ""')
  addRemoteFlags(addStoreFlags(command))
    .addHelpText('after', MORE + EXAMPLES)
    .action(async (cell: string, sql: string | undefined, words: string[], flags: SqlFlags) => {
      checkUsage(command, sql, words, flags)
      const files = flags.file ?? (isScript(sql) ? standardInput(sql) : [])
      if (files.length > 0) {
        await runFiles(cell, files, flags)
      } else if (sql === undefined) {
        await runStoreCommand(flags, (client) => openShell(client, cell, flags))
      } else {
        const params = paramsOf(command, words, flags)
        await runStoreCommand(flags, (client) => runStatement(client, { cell, sql, params }, flags))
      }
    })
}

/** `-- words`: no option has a blank in its name. */
const COMMENT = /^--[^=]*\s/
/** No argument of a process holds one. */
const HIDDEN = '\0'

/** Has a command take a word that begins with a comment of SQL as what it is: it looks like an option. */
function takingComments(command: Command): Command {
  const parse = command.parseOptions.bind(command)
  const shown = (words: string[]) => words.map((word) => word.replace(HIDDEN, ''))
  command.parseOptions = (words) => {
    const { operands, unknown } = parse(words.map((word) => (COMMENT.test(word) ? HIDDEN + word : word)))
    return { operands: shown(operands), unknown: shown(unknown) }
  }
  return command
}

function isScript(sql: string | undefined): boolean {
  return sql === undefined || sql === STANDARD_INPUT
}

/** At a terminal a person types, unless they have asked for it to be read to its end. */
function standardInput(sql: string | undefined): string[] {
  return sql === STANDARD_INPUT || !isatty(0) ? [STANDARD_INPUT] : []
}

function formatOf({ json, csv }: SqlFlags): SqlFormat {
  return json ? 'json' : csv ? 'csv' : 'table'
}

/** What would otherwise be ignored without a word. */
function checkUsage(
  command: Command,
  sql: string | undefined,
  words: readonly string[],
  { json, csv, file, text, jsonParams }: SqlFlags,
): void {
  const hasParams = words.length > 0 || jsonParams !== undefined || text === true
  const rules: [boolean, string][] = [
    [json === true && csv === true, 'choose --json or --csv, not both'],
    [file !== undefined && sql !== undefined, 'give a statement or --file, not both'],
    [isScript(sql) && hasParams, 'parameters go with a statement on the command line, not with a script'],
    [
      jsonParams !== undefined && words.length > 0,
      'give the parameters one by one or in --json-params, not both',
    ],
    [jsonParams !== undefined && text === true, '--text is for parameters one by one, not for --json-params'],
  ]
  const wrong = rules.find(([isBroken]) => isBroken)?.[1]
  if (wrong !== undefined) command.error(`error: ${wrong}`, USAGE)
}

function paramsOf(command: Command, words: readonly string[], { jsonParams, text }: SqlFlags): unknown {
  if (jsonParams === undefined) return text ? words : words.map(typedParam)
  try {
    return parseJsonParams(jsonParams)
  } catch (error) {
    if (!isCellError(error)) throw error
    return command.error('error: --json-params takes a JSON list, or an object for named placeholders', {
      code: 'commander.invalidArgument',
      exitCode: 2,
    })
  }
}

async function runStatement(
  client: StoreClient,
  statement: { cell: string; sql: string; params: unknown },
  flags: SqlFlags,
): Promise<void> {
  print(await client.sql(statement), formatOf(flags))
}

/** All files are read before anything runs. */
async function runFiles(cell: string, files: readonly string[], flags: SqlFlags): Promise<void> {
  const scripts: Script[] = []
  for (const file of files) scripts.push(await readScript(file))
  await runStoreCommand(flags, async (client) => {
    const results: SqlDocument[] = []
    let printed = 0
    let count = 0
    for (const script of scripts) {
      for await (const result of runScript(client, cell, script)) {
        count++
        if (flags.json) results.push(result)
        else printed += print(result, formatOf(flags), printed > 0) ? 1 : 0
      }
    }
    if (flags.json) process.stdout.write(`${JSON.stringify({ results })}\n`)
    if (count === 0) printNote(flags.json, 'There was no statement.')
  })
}

/** @param isNext an empty line separates one CSV from the next @returns whether there was something to print */
function print(result: SqlDocument, format: SqlFormat, isNext = false): boolean {
  const text = formatResult(result, format, { isTerminal: process.stdout.isTTY })
  if (text === undefined) return false
  process.stdout.write(`${format === 'csv' && isNext ? '\n' : ''}${text}\n`)
  return true
}

async function openShell(client: StoreClient, cell: string, flags: SqlFlags): Promise<void> {
  // Is the cell there? Better asked before a person types.
  await client.sql({ cell, sql: 'SELECT 1' })
  const { runShell } = await import('../sql/shell.ts')
  await runShell({
    client,
    cell,
    format: formatOf(flags),
    history: History.of(process.env),
    greeting: `cellstore ${packageJson.version}, cell ${cell}. Statements end with a semicolon; .help lists commands, .quit leaves.`,
    input: process.stdin,
    terminal: process.stdout.isTTY ? process.stdout : process.stderr,
    output: process.stdout,
    errors: process.stderr,
  })
  process.stdin.unref()
}

/** The usual spelling of an integer. 007 and +7 are text. */
const INTEGER = /^(0|-?[1-9]\d{0,18})$/
/** A number in JSON, with a fraction or an exponent. */
const REAL = /^-?(0|[1-9]\d*)(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+)$/

/**
 * A parameter on the command line, as JSON of the HTTP interface: what JSON takes for a number is one, `null` is NULL, and
 * everything else is text. A number that would not fit into 64 bits stays text, so that nothing of it is lost.
 */
export function typedParam(word: string): unknown {
  if (word === 'null') return null
  if (REAL.test(word)) return realParam(word)
  if (!INTEGER.test(word)) return word
  const integer = BigInt(word)
  return BigInt.asIntN(64, integer) === integer ? exactInteger(integer) : word
}

/**
 * Parameters in JSON. Integers keep all their digits.
 *
 * @throws `invalid_json`
 */
export function parseJsonParams(text: string): unknown {
  const params = parseJson(Buffer.from(text))
  if (typeof params === 'object' && params !== null) return params
  throw new CellError('invalid_json', 'The parameters must be a list or an object.')
}

/** REAL also where the value is whole, as SQLite reads 1.0 and 1e3. */
function realParam(word: string): unknown {
  const value = Number(word)
  return Number.isFinite(value) ? { type: 'real', value } : word
}

/** A number if JSON keeps it exact, otherwise the typed form. */
function exactInteger(integer: bigint): unknown {
  const number = Number(integer)
  return Number.isSafeInteger(number) ? number : { type: 'integer', value: integer.toString() }
}
