import { createInterface, type Interface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { SqlTokens } from '../../engine/sql-policy/sql-lexer.ts'
import { statementsOf } from '../../engine/sql-policy/sql-script.ts'
import { SqlStatement } from '../../engine/sql-policy/sql-statement.ts'
import { CellError, messageWithCause } from '../../errors.ts'
import { withoutKeys } from '../log.ts'
import type { StoreClient } from '../store-client.ts'
import { visibleLines } from '../terminal/output.ts'
import type { History } from './history.ts'
import { runShellCommand, type ShellSession } from './shell-commands.ts'
import { formatResult, type SqlFormat } from './sql-formats.ts'

interface ShellOptions {
  client: Pick<StoreClient, 'sql' | 'batch'>
  cell: string
  format: SqlFormat
  history: History
  /** Said first. */
  greeting: string
  /** What is typed. */
  input: Readable
  /** Where the line is edited: the prompt, and what was typed. */
  terminal: Writable
  /** For results. */
  output: Writable
  /** For errors. */
  errors: Writable
}

const PROMPT = 'cellstore> '
/** A statement goes on in the next line. */
const PROMPT_MORE = '      ...> '
const TRANSACTION_VERBS: readonly string[] = ['BEGIN', 'COMMIT', 'END', 'ROLLBACK', 'SAVEPOINT', 'RELEASE']
const NO_TRANSACTIONS =
  'The shell has no transactions: everybody else who writes to the cell would wait for what you type. Write the statements into a file, from BEGIN to COMMIT, and .read it.'

/** Runs what a person types, until they leave. */
export function runShell(options: ShellOptions): Promise<void> {
  return new Shell(options).run()
}

class Shell implements ShellSession {
  readonly client: ShellOptions['client']
  readonly cell: string
  format: SqlFormat
  readonly #options: ShellOptions
  readonly #lines: Interface
  /** Lines that came while a statement ran: a paste has many. */
  readonly #waiting: string[] = []
  /** The beginning of a statement that goes on. */
  #typed = ''
  /** Of what runs now. */
  #running: AbortController | undefined
  #leaving = false
  readonly #left = Promise.withResolvers<void>()

  constructor(options: ShellOptions) {
    const { client, cell, format, history, input, terminal } = options
    this.client = client
    this.cell = cell
    this.format = format
    this.#options = options
    this.#lines = createInterface({
      input,
      output: terminal,
      prompt: PROMPT,
      history: history.load(),
      historySize: 1_000,
      removeHistoryDuplicates: true,
    })
  }

  run(): Promise<void> {
    this.#options.terminal.write(`${this.#options.greeting}\n`)
    this.#lines.on('line', (line) => {
      this.#waiting.push(line)
      void this.#work()
    })
    this.#lines.on('SIGINT', () => this.#interrupt())
    this.#lines.on('close', () => {
      // What comes next, the prompt of another shell, begins a line.
      if (!this.#leaving) this.#options.terminal.write('\n')
      this.#leaving = true
      if (this.#running === undefined) this.#left.resolve()
    })
    this.#lines.prompt()
    return this.#left.promise
  }

  readonly print = (text: string): void => {
    this.#options.output.write(`${text}\n`)
  }

  leave(): void {
    this.#waiting.length = 0
    this.#leaving = true
  }

  /** Takes the lines one by one: what comes meanwhile waits. */
  async #work(): Promise<void> {
    if (this.#running !== undefined) return
    for (let line = this.#waiting.shift(); line !== undefined; line = this.#waiting.shift()) {
      this.#running = new AbortController()
      await this.#take(line, this.#running.signal)
    }
    this.#running = undefined
    if (this.#leaving) {
      this.#lines.close()
      this.#left.resolve()
      return
    }
    this.#lines.setPrompt(this.#typed === '' ? PROMPT : PROMPT_MORE)
    this.#lines.prompt()
  }

  async #take(line: string, signal: AbortSignal): Promise<void> {
    this.#options.history.add(line)
    if (this.#typed === '' && line.trimStart().startsWith('.')) {
      await this.#try(signal, () => runShellCommand(this, line, { signal }))
      return
    }
    const { whole, rest } = splitTyped(`${this.#typed}${line}\n`)
    this.#typed = rest
    for (const sql of whole) await this.#try(signal, () => this.#runStatement(sql, signal))
  }

  async #runStatement(sql: string, signal: AbortSignal): Promise<void> {
    const { explain, verb } = new SqlStatement(sql).head
    if (!explain && TRANSACTION_VERBS.includes(verb))
      throw new CellError('statement_not_allowed', NO_TRANSACTIONS)
    const result = await this.client.sql({ cell: this.cell, sql }, { signal })
    const text = formatResult(result, this.format, { isTerminal: true })
    if (text !== undefined) this.print(text)
  }

  /** An error ends what was to run, never the shell. */
  async #try(signal: AbortSignal, run: () => Promise<void>): Promise<void> {
    if (signal.aborted) return
    try {
      await run()
    } catch (error) {
      this.#options.errors.write(`Error: ${visibleLines(withoutKeys(sentenceOf(error, signal)))}\n`)
    }
  }

  /** Ctrl-C: gives up what runs, or else what was typed. */
  #interrupt(): void {
    this.#waiting.length = 0
    this.#typed = ''
    this.#options.terminal.write('^C\n')
    if (this.#running !== undefined) {
      this.#running.abort()
      return
    }
    this.#lines.setPrompt(PROMPT)
    // To the end of the line, and away with all before it.
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.#lines.write(null, { ctrl: true, name: 'u' })
    this.#lines.prompt()
  }
}

function sentenceOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return 'Interrupted. The statement may have run or not.'
  if (error instanceof CellError) return messageWithCause(error)
  return error instanceof Error ? error.message : String(error)
}

/** What a person has typed so far: statements that a semicolon has ended, and the beginning of the next one. */
interface TypedStatements {
  whole: string[]
  /** Empty if only blanks and comments are left. */
  rest: string
}

/** Splits what was typed. A semicolon in a literal, a comment or the body of a trigger ends nothing. */
export function splitTyped(text: string): TypedStatements {
  const whole: string[] = []
  let end = 0
  for (const statement of statementsOf(text)) {
    if (statement.end === undefined) break
    whole.push(statement.sql)
    end = statement.end
  }
  const rest = text.slice(end)
  return { whole, rest: isBlank(rest) ? '' : rest }
}

/** Whether a text has no statement, and no comment that is still open: that one would take the marks added here. */
function isBlank(text: string): boolean {
  const tokens = new SqlTokens(`${text}\n*/`)
  let token = tokens.next()
  while (token?.text === ';') token = tokens.next()
  return token?.text === '*' && tokens.next()?.text === '/' && tokens.next() === undefined
}
