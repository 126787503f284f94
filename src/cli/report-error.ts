import { CommanderError } from 'commander'
import { CellError } from '../errors.ts'
import { EXIT_FAILED, EXIT_OK, EXIT_USAGE } from './exit-code.ts'
import { withoutKeys } from './log.ts'

export interface ErrorReport {
  exitCode: number
  /** For standard error; empty where everything has been said. */
  text: string
}

interface Explained {
  code: string
  message: string
}

/** What commander throws where it has shown what was asked for. */
const SHOWN = ['commander.helpDisplayed', 'commander.version']
/** A command that only groups others was given none of them: its help was the answer. */
const HELP_AS_ERROR = 'commander.help'

/**
 * What to say of a command's failure: a sentence, or with `--json` one JSON object `{code, message}`. A bug of ours shows
 * where it happened.
 */
export function reportError(error: unknown, json: boolean): ErrorReport {
  if (error instanceof CommanderError) {
    if (SHOWN.includes(error.code)) return { exitCode: EXIT_OK, text: '' }
    if (error.code === HELP_AS_ERROR && !json) return { exitCode: EXIT_USAGE, text: '' }
    return { exitCode: EXIT_USAGE, text: format(explainUsage(error), json) }
  }
  return { exitCode: EXIT_FAILED, text: format(explain(error, json), json) }
}

function explainUsage({ code, message }: CommanderError): Explained {
  if (code === HELP_AS_ERROR) return { code: 'invalid_request', message: 'A command is missing.' }
  const sentence = message.replace(/^error: /, '').replace(/\n\(?(.*?)\)?$/s, '. $1')
  return {
    code: code === 'commander.invalidArgument' ? 'invalid_setting' : 'invalid_request',
    message: `${sentence.replace(/[.?]?$/, (end) => (end === '' ? '.' : end))} See \`cellstore help\`.`,
  }
}

function explain(error: unknown, json: boolean): Explained {
  if (error instanceof CellError) return { code: error.code, message: causedBy(error) }
  if (!(error instanceof Error)) return { code: 'internal', message: String(error) }
  // The operating system's own sentence, with the path: this is the machine's owner.
  if ('syscall' in error) return { code: 'internal', message: `${error.message}.` }
  return { code: 'internal', message: json ? error.message : (error.stack ?? error.message) }
}

/** Messages leave out what tenants must not see; whoever runs the command may know what was behind it. */
function causedBy({ message, cause }: CellError): string {
  if (!(cause instanceof Error) || cause.message === '' || message.includes(cause.message)) return message
  return `${message} (${cause.message})`
}

function format({ code, message }: Explained, json: boolean): string {
  const shown = withoutKeys(message)
  return json ? `${JSON.stringify({ code, message: shown })}\n` : `cellstore: ${shown}\n`
}
