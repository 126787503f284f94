import type { Command } from 'commander'
import { isCellError } from '../../errors.ts'
import type { SqlDocument } from '../../service/json/sql-answers.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { examples, formatTable, printResult } from '../output.ts'
import { runOwnerCommand } from '../owner-command.ts'
import { parseJsonParams, typedParam } from '../sql-params.ts'

const MORE = `
A parameter that is a whole number becomes an integer, null becomes NULL, and
everything else becomes text. For other values use --json-params, with the JSON
of the HTTP interface: '["42", 3.5, {"type":"blob","base64":"AAE="}]', or an
object for named placeholders.
`

const EXAMPLES = examples(
  `cellstore sql "$CELL" 'CREATE TABLE users (name TEXT, age INTEGER)'`,
  `cellstore sql "$CELL" 'INSERT INTO users VALUES (?, ?)' Ann 31`,
  `cellstore sql "$CELL" 'SELECT * FROM users WHERE age > ?' 30 --json`,
  `cellstore sql "$CELL" 'SELECT * FROM cell_kv'`,
)

const VALUE_CHARS_MAX = 200

interface SqlFlags extends StoreFlags {
  jsonParams?: string
}

export function addSqlCommand(program: Command): void {
  const command = program
    .command('sql')
    .summary('run a statement on a cell')
    .description(
      'Runs one SQL statement on a cell and prints its rows. The rules and limits for statements are those of the HTTP interface.',
    )
    .argument('<cell>', 'the id or the name of the cell')
    .argument('<sql>', 'the statement, with ? for parameters')
    .argument('[params...]', 'the parameters, in order')
    .option('--json-params <json>', 'the parameters as JSON, instead of [params...]')
  addStoreFlags(command)
    .addHelpText('after', MORE + EXAMPLES)
    .action(async (cell: string, sql: string, words: string[], { jsonParams, ...flags }: SqlFlags) => {
      const params =
        jsonParams === undefined ? words.map(typedParam) : jsonParameters(command, jsonParams, words)
      await runOwnerCommand(flags, async (client) =>
        printResult(await client.sql({ cell, sql, params }), flags.json, showSqlResult),
      )
    })
}

function jsonParameters(command: Command, text: string, words: readonly string[]): unknown {
  const options = { code: 'commander.invalidArgument', exitCode: 2 }
  if (words.length > 0)
    command.error('error: give the parameters one by one or in --json-params, not both', options)
  try {
    return parseJsonParams(text)
  } catch (error) {
    if (!isCellError(error)) throw error
    return command.error(
      'error: --json-params takes a JSON list, or an object for named placeholders',
      options,
    )
  }
}

/** A statement's result for people. */
function showSqlResult({ columns, rows, row_count, changes, duration_ms }: SqlDocument): string {
  const took = `${duration_ms.toFixed(1)} ms`
  if (columns.length === 0) return `${count(changes, 'row')} changed, ${took}`
  const table = formatTable(
    columns,
    rows.map((row) => columns.map((column) => showValue((row as Record<string, unknown>)[column]))),
  )
  return `${table}\n${count(row_count, 'row')}, ${took}`
}

function showValue(value: unknown): string {
  if (value === null || value === undefined) return 'NULL'
  const text = typeof value === 'object' ? showBlob(value as { base64?: string }) : String(value)
  return text.length > VALUE_CHARS_MAX ? `${text.slice(0, VALUE_CHARS_MAX)}…` : text
}

function showBlob({ base64 = '' }: { base64?: string }): string {
  return `x'${Buffer.from(base64, 'base64').toString('hex')}'`
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}
