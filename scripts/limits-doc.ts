/** Writes docs/limits.md from the code: `npm run limits`. A test fails while the two differ. */
import fs from 'node:fs'
import { pathToFileURL } from 'node:url'
import { type LimitRow, spell, variableOf } from '../src/cli/serve/limits/limit-row.ts'
import { LIMITS } from '../src/cli/serve/limits/limits.ts'

const FILE = new URL('../docs/limits.md', import.meta.url)

const INTRODUCTION = `# Limits

\`npm run limits\` makes this page from the code. Each limit has a flag of \`cellstore serve\` and a variable;
\`cellstore serve --help-limits\` lists them. A value out of its range ends the command with exit code 2 and a message that says the
range. In the library, limits are options: below each title is where they stand.

The error of a limit names its setting, as in \`quotas.cellsMax\`, and has its value in \`limit\`. If the limit is an account's, \`usage\`
is what this account has, in the same unit. No error says what another account has: an error of a limit that all accounts share has
no \`usage\`, or the account's own.

Bytes are written as 65536, 64KiB, 2MiB or 1GiB, durations as 40ms, 30s or 15m.
`

export function limitsDocument(): string {
  const groups = Object.entries(LIMITS).map(([name, { title, place, rows }]) => {
    const lines = Object.entries<LimitRow>(rows).map(([setting, row]) => lineOf(`${name}.${setting}`, row))
    return `## ${title}

${place === '' ? 'Only of `cellstore serve`' : `In the library: ${place}`}.

| Setting | Flag and variable | Default | What it bounds | Over it |
|---|---|---|---|---|
${lines.join('\n')}
`
  })
  return [INTRODUCTION, ...groups].join('\n')
}

function lineOf(setting: string, row: LimitRow): string {
  const bounds = row.default === undefined ? row.otherwise : spell(row, row.default)
  const unit = row.unit === 'mebibytes' ? ' MiB' : ''
  const cells = [
    `\`${setting}\``,
    `\`--${row.flag}\` \`${variableOf(row)}\``,
    `${bounds}${unit}`,
    row.about,
    row.over,
  ]
  return `| ${cells.join(' | ')} |`
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) fs.writeFileSync(FILE, limitsDocument())
