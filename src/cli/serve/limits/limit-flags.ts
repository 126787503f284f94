import { type Command, CommanderError, Option } from 'commander'
import { limitOption } from './limit-row.ts'
import { LIMITS } from './limits.ts'

const MORE = `
Bytes may have a unit: 65536, 64KiB, 2MiB, 1GiB. Durations have one: 40ms, 30s,
15m. docs/limits.md says what happens over each limit.
`

/** Adds a flag for each limit, and `--help-limits`, which lists them: in `--help` they would fill several screens. */
export function addLimitFlags(command: Command): Command {
  const options = Object.values(LIMITS).flatMap(({ title, rows }) =>
    Object.values(rows).map((row) => limitOption(row).helpGroup(`${title}:`).hideHelp()),
  )
  for (const option of options) command.addOption(option)
  return command
    .addOption(new Option('--help-limits', 'list the flags and variables of all limits'))
    .on('option:help-limits', () => {
      showHelpOf(options, command)
      // As after --help: the program ends, and nothing went wrong.
      throw new CommanderError(0, 'commander.helpDisplayed', '(outputHelp)')
    })
}

function showHelpOf(options: Option[], command: Command): void {
  const { writeOut, getOutHelpWidth, getOutHasColors } = command.configureOutput()
  const help = command.createHelp()
  help.visibleOptions = () => options
  help.prepareContext({ helpWidth: getOutHelpWidth?.() ?? 80, outputHasColors: getOutHasColors?.() ?? false })
  writeOut?.(help.formatHelp(command, help) + MORE)
}
