import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { VARIABLES } from '../../src/cli/environment.ts'
import { buildProgram } from '../../src/cli/program.ts'

const COMMANDS = [
  'serve',
  'keys generate',
  'keys create',
  'keys list',
  'keys revoke',
  'cells create',
  'cells list',
  'cells delete',
  'sql',
  'backup',
  'restore',
  'backups list',
  'backups prune',
  'backups purge',
  'backups pin',
  'backups unpin',
  'backups plan',
]

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

  test('of serve has every variable', () => {
    for (const name of VARIABLES) expect(helpOf('serve')).toContain(name)
  })

  test('knows the same variables as the settings do', () => {
    const bound = new Set(
      allCommands(buildProgram()).flatMap((command) => command.options.flatMap(({ envVar }) => envVar ?? [])),
    )
    // Not a flag: what stands on a command line, every user of the machine can read.
    expect([...bound, 'CELLSTORE_ROOT_KEY'].sort()).toEqual([...VARIABLES].sort())
  })
})

function allCommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(allCommands)]
}
