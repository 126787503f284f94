/** Writes docs/command-line.md from the code: `npm run command-line`. A test fails while the two differ. */
import fs from 'node:fs'
import { pathToFileURL } from 'node:url'
import type { Command, Option } from 'commander'
import { buildProgram } from '../src/cli/program.ts'

const FILE = new URL('../docs/command-line.md', import.meta.url)

const INTRODUCTION = `# The command line

\`npm run command-line\` makes this page from the code. \`cellstore --help\` lists the commands, and
\`cellstore help <command>\` has what is below, with more words.

## On which store a command works

- **Of this machine**, as its owner: the store in \`--data-dir\`. While a node serves it, the command asks the node, through a socket that only
  the node's owner can use. Otherwise the command opens the store itself, and holds it until it ends: a node that starts meanwhile
  finds it locked. The owner sees all accounts. Such a command stores what it changes in the catalog before it ends, and ships nothing of
  cells: the next \`cellstore serve\` does that, and a note on standard error says so. \`cellstore backup\` stores a cell at once.
- **On a remote node**, as an account: \`--url\`, and the account's API key in \`CELLSTORE_KEY\` or in the file of \`--key-file\`. There is no
  flag for the key itself, because all users of a machine can read command lines. This uses the public [\`/v1\` interface](http-api.md) alone.
  The commands [below](#all-commands) that have the flags for a remote node can do it. The others need the owner, and say so.

\`\`\`sh
export CELLSTORE_URL=https://cells.example.com CELLSTORE_KEY=$(cat ~/.cells-key)
CELL=$(cellstore cells create --name acme)
cellstore sql "$CELL" < schema.sql
\`\`\`

- A command line that names both places is refused: \`--url\` together with \`--data-dir\` or an object store, whether they are flags or variables.
- Plain \`http://\` to another machine is refused, unless you say \`--allow-http\`: the key and the data could be read on the way. \`http://127.0.0.1\`,
  \`http://[::1]\` and \`http://localhost\` are fine.
- A redirect is refused too: the key would go with it.
- With a key, \`--account\` and \`--new-account\` are refused: it sees its own account alone. Documents then have no \`account_id\`.
- A remote restore goes on at the node if its command ends, also after Ctrl-C. A remote backup ends with its command, and has no progress
  bar. One that takes over five minutes without an answer is given up: leave those to the node's schedule, or run the command there.

## Exit codes and output

| Exit code | When |
|---|---|
| 0 | done |
| 1 | failed, with a sentence on standard error |
| 2 | the command line or a setting is wrong: nothing was tried |

With \`--json\`, standard output is one JSON document with the field names of the HTTP interface; or an error is \`{"code", "message"}\` on
standard error, with a code of [errors.md](errors.md): one of the two. Without it, results are tables, control characters are written out
(\`\\x1b\`), and notes for people go to standard error.

## SQL

\`cellstore sql <cell> [sql] [params…]\` runs one statement. Without one it reads a script from standard input, or from each \`--file\`. At a
terminal it is a shell.

**Parameters**: what JSON takes for a number is one. \`42\` is an INTEGER, \`1.5\` and \`1e3\` are REALs; \`007\`, \`+1\` and numbers that 64 bits cannot
hold are text. \`null\` is NULL, and everything else is text. \`--text\` makes all of them text. \`--json-params\` takes any value, as
[JSON of the HTTP interface](http-api.md#sql).

**Formats**: \`--json\`; \`--csv\` (a line of names, then a line for each row; NULL is an empty field and empty text is \`""\`; blobs are
\`x'…'\`; an empty line separates the results of a script); or a table, in which values over 80 columns are cut.

**Scripts** run a statement at a time, each in a transaction of its own, as in the \`sqlite3\` program. Other than there, the first error ends
the script, with exit code 1. The error has the statement's number and line (\`Statement 3, at line 7: …\`), and what ran before it
stays. Between \`BEGIN\` and \`COMMIT\` all statements run as one batch: all or none, at most 1,000, and the results come at the end. \`ROLLBACK\` drops
them. A script takes no parameters. All files are read before the first statement runs.

**The shell** runs each statement when its semicolon has come; until then lines add up. Ctrl-C drops what was typed, or gives up the
statement that runs. Ctrl-D or \`.quit\` leaves.

| Command | What it does |
|---|---|
| \`.tables\` | lists the tables and views |
| \`.schema [table]\` | shows the CREATE statements of all tables, or of one |
| \`.mode [format]\` | shows or sets how results are printed: \`table\`, \`csv\`, \`json\` |
| \`.read <file>\` | runs the statements of a file, with BEGIN and COMMIT too |
| \`.help\` | lists these |
| \`.quit\` | leaves |

Lines are kept in \`~/.cellstore_history\`, which only you can read (mode 0600). \`CELLSTORE_HISTORY\` names another file; if it is empty, nothing is
kept. The shell opens no transactions, because other writers of the cell would wait for what you type.

## Variables without a flag

| Variable | What it is |
|---|---|
| \`CELLSTORE_KEY\` | the API key for \`--url\` |
| \`CELLSTORE_HISTORY\` | the file of the shell's history; empty for none |
| \`CELLSTORE_ROOT_KEY\` | the first key of a new store, for \`serve\` |

An empty variable counts as not set, except for \`CELLSTORE_HISTORY\`. One that starts with \`CELLSTORE_\` and is not known is refused. A flag wins over its
variable. The limits that \`serve\` can set have flags and variables too: [limits.md](limits.md).
`

/** Flags that many commands have: the page lists them once. */
const STORE_FLAGS = ['--data-dir', '--object-store', '--object-store-wait', '--log-level', '--json']
const REMOTE_FLAGS = ['--url', '--key-file', '--allow-http']

/** The page, from the same commands that `--help` shows. */
export function commandLineDocument(): string {
  const program = buildProgram()
  const commands = program.createHelp().visibleCommands(program)
  // As a command has them that has all of them.
  const rowsOf = (flags: readonly string[]) =>
    commands
      .map(({ options }) => flags.map((flag) => options.find(({ long }) => long === flag)))
      .findLast((options): options is Option[] => !options.includes(undefined))
      ?.map(rowOf) ?? []
  const ofStores = rowsOf(STORE_FLAGS)
  const ofRemotes = rowsOf(REMOTE_FLAGS)
  return [
    INTRODUCTION,
    ...['## Flags for a store on this machine', '', ...tableOf(ofStores)],
    ...['## Flags for a remote node', '', ...tableOf(ofRemotes)],
    ...['## All commands', ''],
    ...commands.map((command) => sectionOf(command, ofStores, ofRemotes)),
  ].join('\n')
}

function sectionOf(command: Command, ofStores: readonly string[], ofRemotes: readonly string[]): string {
  const help = command.createHelp()
  const words = help.visibleArguments(command).map((each) => `- \`${each.name()}\`: ${each.description}`)
  const options = help.visibleOptions(command).filter(({ long }) => long !== '--help')
  const rows = options.map(rowOf)
  const groups = [
    { rows: ofStores, link: '[for a store on this machine](#flags-for-a-store-on-this-machine)' },
    { rows: ofRemotes, link: '[for a remote node](#flags-for-a-remote-node)' },
  ].filter((group) => isPart(group.rows, rows))
  const own = rows.filter((row) => !groups.some((group) => group.rows.includes(row)))
  const shared = groups.map(({ link }) => link)
  return [
    `### ${help.commandUsage(command).replace(' [options]', '')}`,
    '',
    command.description(),
    '',
    ...(words.length === 0 ? [] : [...words, '']),
    ...(own.length === 0 ? [] : tableOf(own)),
    ...(shared.length === 0
      ? []
      : [`${own.length === 0 ? 'Flags' : 'And the flags'} ${shared.join(' and ')}.`, '']),
    ...examplesOf(command),
  ].join('\n')
}

function isPart(some: readonly string[], rows: readonly string[]): boolean {
  return some.every((row) => rows.includes(row))
}

function tableOf(rows: readonly string[]): string[] {
  return ['| Flag | Variable | Default | What it is |', '|---|---|---|---|', ...rows, '']
}

function rowOf({
  flags,
  envVar,
  defaultValue,
  defaultValueDescription,
  argChoices,
  description,
}: Option): string {
  const value = defaultValueDescription ?? defaultValue
  const choices = argChoices === undefined ? '' : ` (${argChoices.join(', ')})`
  const cells = [
    `\`${flags}\``,
    envVar === undefined ? '' : `\`${envVar}\``,
    value === undefined ? '' : `\`${value}\``,
    `${description}${choices}`.replaceAll('|', '\\|'),
  ]
  return `| ${cells.join(' | ')} |`
}

/** The examples at the end of its help. */
function examplesOf(command: Command): string[] {
  let text = ''
  command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp()
  const lines = text.split('\nExamples:\n')[1]?.trimEnd().split('\n') ?? []
  return ['```sh', ...lines.map((line) => line.replace(/^ {2}(\$ )?/, '')), '```', '']
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  fs.writeFileSync(FILE, commandLineDocument())
