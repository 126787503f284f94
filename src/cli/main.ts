import { dropUnsetVariables } from './environment.ts'
import { buildProgram } from './program.ts'
import { EXIT_FAILED, EXIT_OK, reportError } from './terminal/report-error.ts'

/**
 * Runs one command.
 *
 * @param argv the arguments, without the program's name
 * @returns its exit code
 */
export async function main(argv: string[]): Promise<number> {
  surviveLostOutput()
  dropUnsetVariables(process.env)
  try {
    await buildProgram().parseAsync(argv, { from: 'user' })
    return EXIT_OK
  } catch (error) {
    const { exitCode, text } = reportError(error, argv.includes('--json'))
    process.stderr.write(text)
    return exitCode
  }
}

/**
 * The reader of our output may stop early: `cellstore keys list | head -1` is not a failure. And output may go to a file
 * on a full disk. A node must not end because of its log, least of all then.
 */
function surviveLostOutput(): void {
  process.stderr.on('error', () => {})
  process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE') return
    process.stderr.write(`cellstore: The result could not be written to standard output: ${message}.\n`)
    process.once('exit', (exitCode) => {
      if (exitCode === EXIT_OK) process.exitCode = EXIT_FAILED
    })
  })
}
