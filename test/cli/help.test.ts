import type { Command } from 'commander'
import { describe, expect, test, vi } from 'vitest'
import { VARIABLES } from '../../src/cli/environment.ts'
import { buildProgram } from '../../src/cli/program.ts'
import { variableOf } from '../../src/cli/serve/limits/limit-row.ts'
import { LIMIT_ROWS } from '../../src/cli/serve/limits/limits.ts'
import { reportError } from '../../src/cli/terminal/report-error.ts'

const COMMANDS = [
  'serve',
  'keys generate',
  'keys create',
  'keys list',
  'keys rotate',
  'keys revoke',
  'accounts create',
  'accounts list',
  'accounts suspend',
  'accounts resume',
  'accounts quotas',
  'cells create',
  'cells list',
  'cells rename',
  'cells export',
  'cells import',
  'cells delete',
  'sql',
  'backup',
  'restore',
  'backups list',
  'backups verify',
  'backups prune',
  'backups purge',
  'backups pin',
  'backups unpin',
  'backups plan',
  'recover',
  'status',
  'cluster status',
  'cluster drain',
  'cluster balance',
  'cluster leave',
  'cluster rebuild',
]

/** Variables that a node does not read. */
const OF_COMMANDS = ['CELLSTORE_URL', 'CELLSTORE_KEY', 'CELLSTORE_HISTORY']

/** What `--help` prints, with the text after it. */
function helpOf(name: string): string {
  let text = ''
  const found = name.split(' ').reduce((command, word) => {
    const child = command.commands.find((each) => each.name() === word)
    if (child === undefined) throw new Error(`There is no command ${name}`)
    return child
  }, buildProgram())
  found.configureOutput({ writeOut: (part) => (text += part) })
  found.outputHelp()
  return text
}

function rootHelp(): string {
  let text = ''
  buildProgram()
    .configureOutput({ writeOut: (part) => (text += part) })
    .outputHelp()
  return text
}

describe('--help', () => {
  test('names every command that there is, with a line on each', () => {
    const listed = rootHelp()
      .split('Commands:\n')[1]
      ?.split('\n\n')[0]
      ?.split('\n')
      .map((line) => line.trim().replace(/ {2,}.*| [<[].*/g, ''))
    expect(listed).toEqual(COMMANDS)
    expect(rootHelp()).toMatch(/ sql <cell> \[sql\] \[params…\] .* backups verify \[cell\] /s)
    expect(rootHelp()).toMatch(/Exit codes: 0 .* 1 .* 2 /s)
    expect(rootHelp()).toMatch(/Examples:\n {2}\$ cellstore serve\n/)
  })

  test.each(COMMANDS)('of %s has a sentence, and each flag and argument its line', (name) => {
    const text = helpOf(name)
    expect(text).toMatch(/^Usage: cellstore [^\n]+\n\n[A-Z][\s\S]+?\.\n\n/)
    expect(text).toMatch(/\nExamples:\n( {2}\$ .+\n( {6}.+\n)*)+$/)
    const options = text.split('Options:\n')[1]?.split('\n\n')[0] ?? ''
    for (const line of options.split('\n').filter((each) => /^ {2}-/.test(each))) {
      expect(line).toMatch(/^ {2}-\S.*\S {2,}\S|^ {2}-\S.*>$/)
    }
  })

  test('of serve has every variable, except those of the limits', () => {
    const others = new Set([...LIMIT_ROWS.map(variableOf), ...OF_COMMANDS])
    for (const name of VARIABLES.filter((each) => !others.has(each))) expect(helpOf('serve')).toContain(name)
    for (const name of OF_COMMANDS) expect(helpOf('sql')).toContain(name)
    expect(helpOf('serve')).toMatch(/--help-limits .*\n/)
    expect(helpOf('serve').split('\n').length).toBeLessThan(138)
  })

  test.each([...COMMANDS, 'backups'])(
    'of %s is what `cellstore help` shows too, and ends with 0',
    async (name) => {
      const printed = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
      const shown = await buildProgram()
        .parseAsync(['help', ...name.split(' ')], { from: 'user' })
        .catch((error) => error)
      const text = printed.mock.calls.map(([part]) => part).join('')
      printed.mockRestore()
      expect(reportError(shown, false)).toEqual({ exitCode: 0, text: '' })
      expect(text).toBe(helpOf(name))
    },
  )

  test('of the limits has the flag, the variable and the default of each, and ends with 0', async () => {
    const text = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    const shown = await buildProgram()
      .parseAsync(['serve', '--help-limits'], { from: 'user' })
      .catch((error) => error)
    const printed = text.mock.calls
      .map(([part]) => part)
      .join('')
      .replace(/\s+/g, ' ')
    text.mockRestore()
    expect(reportError(shown, false)).toEqual({ exitCode: 0, text: '' })
    for (const row of LIMIT_ROWS) {
      expect(printed).toContain(`--${row.flag} `)
      expect(printed).toContain(`env: ${variableOf(row)})`)
    }
    expect(printed).toContain('default: 1GiB')
  })

  test('knows the same variables as the settings do', () => {
    const bound = new Set(
      allCommands(buildProgram()).flatMap((command) => command.options.flatMap(({ envVar }) => envVar ?? [])),
    )
    // Keys are no flags: what stands on a command line, every user of the machine can read.
    expect([...bound, 'CELLSTORE_ROOT_KEY', 'CELLSTORE_KEY', 'CELLSTORE_HISTORY'].sort()).toEqual(
      [...VARIABLES].sort(),
    )
  })
})

function allCommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(allCommands)]
}
