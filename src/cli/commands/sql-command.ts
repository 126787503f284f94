import type { Command } from 'commander'
import { isCellError } from '../../errors.ts'
import { runAdmin } from '../admin-command.ts'
import { examples } from '../examples.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { printResult } from '../output.ts'
import { parseJsonParams, typedParam } from '../sql-params.ts'
import { showSqlResult } from '../sql-result.ts'

const MORE = `
A parameter that is written as a whole number is an integer, null is NULL, and
everything else is text. For the rest there is --json-params, which takes what
the HTTP interface takes: '["42", 3.5, {"type":"blob","base64":"AAE="}]', or an
object for named placeholders.
`

const EXAMPLES = examples(
  `cellstore sql "$CELL" 'CREATE TABLE users (name TEXT, age INTEGER)'`,
  `cellstore sql "$CELL" 'INSERT INTO users VALUES (?, ?)' Ann 31`,
  `cellstore sql "$CELL" 'SELECT * FROM users WHERE age > ?' 30 --json`,
  `cellstore sql "$CELL" 'SELECT * FROM cell_kv'`,
)

interface SqlFlags extends StoreFlags {
  jsonParams?: string
}

export function addSqlCommand(program: Command): void {
  const command = program
    .command('sql')
    .summary('run a statement on a cell')
    .description(
      'Runs one SQL statement on a cell and prints its rows. What a statement may do, and how much it may return, is as over HTTP.',
    )
    .argument('<cell>', 'the id of the cell')
    .argument('<sql>', 'the statement, with ? for parameters')
    .argument('[params...]', 'the parameters, in order')
    .option('--json-params <json>', 'the parameters as JSON, in place of those on the command line')
  addStoreFlags(command)
    .addHelpText('after', MORE + EXAMPLES)
    .action(async (cell: string, sql: string, words: string[], { jsonParams, ...flags }: SqlFlags) => {
      const params =
        jsonParams === undefined ? words.map(typedParam) : jsonParameters(command, jsonParams, words)
      await runAdmin(flags, async (admin) =>
        printResult(await admin.sql({ cell, sql, params }), flags.json, showSqlResult),
      )
    })
}

function jsonParameters(command: Command, text: string, words: readonly string[]): unknown {
  const options = { code: 'commander.invalidArgument', exitCode: 2 }
  if (words.length > 0)
    command.error('error: parameters are given either one by one or in --json-params, not both', options)
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
