import { CommanderError } from 'commander'
import { CellError, type CellErrorCode, ERROR_KINDS, isCellError, messageWithCause } from '../../errors.ts'
import { withoutKeys } from '../log.ts'
import { visibleLines } from './output.ts'

/** What the process ends with; `cellstore --help` lists them. */
export const EXIT_OK = 0
export const EXIT_FAILED = 1
/** The command line or a setting is wrong: nothing was tried. */
const EXIT_USAGE = 2

interface ErrorReport {
  exitCode: number
  /** For standard error; empty if there is nothing more to say. */
  text: string
}

/** A command has printed its result, and the result is a failure. With `--json` that one document says it all. */
export class FailedResult extends Error {}

interface Explained {
  code: string
  message: string
}

/** An error of commander's, with the command that was used wrongly: `keys list`. */
export class WrongUsage extends CommanderError {
  readonly command: string

  constructor({ exitCode, code, message }: CommanderError, command: string) {
    super(exitCode, code, message)
    this.command = command
  }
}

/** What commander throws after it has shown the help or the version. */
const SHOWN = ['commander.helpDisplayed', 'commander.version']
/** Also that was asked for. Or a group of commands was given no command: commander then wants to end with an error. */
const HELP = 'commander.help'

/** A command's failure as one sentence, or with `--json` as `{code, message}`. Of a bug, it shows where it happened. */
export function reportError(error: unknown, json: boolean): ErrorReport {
  if (error instanceof CommanderError) {
    const wasAsked = error.code === HELP && error.exitCode === EXIT_OK
    if (wasAsked || SHOWN.includes(error.code)) return { exitCode: EXIT_OK, text: '' }
    if (error.code === HELP && !json) return { exitCode: EXIT_USAGE, text: '' }
    return { exitCode: EXIT_USAGE, text: format(explainUsage(error), json) }
  }
  if (error instanceof FailedResult) {
    const { message } = error
    return { exitCode: EXIT_FAILED, text: json ? '' : format({ code: 'failed', message }, json) }
  }
  const isSetting = isCellError(error, 'invalid_setting')
  return { exitCode: isSetting ? EXIT_USAGE : EXIT_FAILED, text: format(explain(error, json), json) }
}

function explainUsage(error: CommanderError): Explained {
  const { code, message } = error
  if (code === HELP) return { code: 'invalid_request', message: 'The command is missing.' }
  const sentence = message.replace(/^error: /, '').replace(/\n\(?(.*?)\)?$/s, '. $1')
  const help = error instanceof WrongUsage ? `cellstore help ${error.command}` : 'cellstore help'
  return {
    code: code === 'commander.invalidArgument' ? 'invalid_setting' : 'invalid_request',
    message: `${sentence.replace(/[.?]?$/, (end) => (end === '' ? '.' : end))} See \`${help}\`.`,
  }
}

function explain(error: unknown, json: boolean): Explained {
  if (error instanceof CellError) return { code: error.code, message: messageWithCause(error) }
  if (!(error instanceof Error)) return { code: 'internal', message: String(error) }
  // The operating system's own sentence, with the path: the reader owns the machine.
  if ('syscall' in error) return { code: 'internal', message: `${error.message}.` }
  return { code: 'internal', message: json ? error.message : (error.stack ?? error.message) }
}

function format({ code, message }: Explained, json: boolean): string {
  const shown = withoutKeys(message)
  if (json) return `${JSON.stringify({ code, message: shown })}\n`
  return `cellstore: ${visibleLines(shown)}\n`
}

/**
 * The error in a problem document. A node of another version may know codes that this command does not.
 *
 * @param noRoute what it means if the node has no such route
 */
export function errorOfProblem(problem: object, noRoute: string): CellError {
  const {
    type: _,
    title,
    status,
    detail,
    code,
    request_id,
    sqlite_code: sqliteCode,
    ...details
  } = problem as Record<string, string>
  if (code === 'internal') {
    return new CellError('internal', `An unexpected error occurred. The log has it as request ${request_id}.`)
  }
  if (code === 'not_found' || code === 'method_not_allowed') return new CellError('invalid_request', noRoute)
  const known = Object.hasOwn(ERROR_KINDS, code ?? '') ? (code as CellErrorCode) : 'internal'
  return new CellError(known, detail ?? '', sqliteCode === undefined ? details : { ...details, sqliteCode })
}
