import { describe, expect, test } from 'vitest'
import { commandLineDocument } from '../../scripts/command-line-doc.ts'
import { VARIABLES } from '../../src/cli/environment.ts'
import { variableOf } from '../../src/cli/serve/limits/limit-row.ts'
import { LIMIT_ROWS } from '../../src/cli/serve/limits/limits.ts'
import { SHELL_COMMANDS } from '../../src/cli/sql/shell-commands.ts'
import { readProjectFile } from '../architecture/source.ts'

describe('docs/command-line.md', () => {
  const page = readProjectFile('docs/command-line.md')

  test('is what the code makes; if not, run `npm run command-line`', () => {
    expect(page).toBe(commandLineDocument())
  })

  test('has every variable, except those of the limits, and every command of the shell', () => {
    const ofLimits = new Set(LIMIT_ROWS.map(variableOf))
    for (const name of VARIABLES.filter((each) => !ofLimits.has(each))) expect(page).toContain(`\`${name}\``)
    for (const [name, { argument }] of Object.entries(SHELL_COMMANDS))
      expect(page).toContain(`| \`.${name} ${argument}`.trimEnd())
  })
})
