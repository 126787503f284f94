import { dropUnsetVariables } from './environment.ts'
import { buildProgram } from './program.ts'
import { EXIT_OK, reportError } from './report-error.ts'

/**
 * Runs one command.
 *
 * @param argv the arguments, without the program's name
 * @returns its exit code
 */
export async function main(argv: string[]): Promise<number> {
  ignoreClosedPipes()
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

/** The reader of our output may stop early: `cellstore keys list | head -1` is not a failure. */
function ignoreClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
}
