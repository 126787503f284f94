import { type Command, Option } from 'commander'
import { USAGE } from '../owner-command.ts'

const URL_FLAG = '--url'
/** What says which store on this machine is meant. A node has its own. */
const LOCAL_FLAGS = ['--data-dir', '--object-store', '--object-store-wait']

/** Adds the flags of `RemoteFlags`, and the variable behind one of them. */
export function addRemoteFlags(command: Command): Command {
  return command
    .addOption(
      new Option(
        `${URL_FLAG} <url>`,
        'work on a remote node, as the account whose API key is in CELLSTORE_KEY: https://cells.example.com',
      ).env('CELLSTORE_URL'),
    )
    .option('--key-file <file>', 'a file that holds the API key for --url, in place of CELLSTORE_KEY')
    .option(
      '--allow-http',
      'with --url, take http:// to another machine: the key and the data can be read on the way',
    )
}

/** Lets the commands that only the owner can run see a URL, in order to refuse it with what to do. */
export function addRefusedUrl(program: Command): void {
  for (const command of commandsBelow(program)) {
    if (command.name() === 'serve' || !hasOption(command, '--data-dir') || hasOption(command, URL_FLAG))
      continue
    command.addOption(new Option(`${URL_FLAG} <url>`).env('CELLSTORE_URL').hideHelp())
  }
}

/** Refuses a command line that does not say clearly which store it is for. */
export function checkPlace(command: Command): void {
  const url = givenAs(command, URL_FLAG)
  if (url === undefined) {
    const idle = ['--key-file', '--allow-http'].find((flag) => givenAs(command, flag) !== undefined)
    if (idle !== undefined) command.error(`error: ${idle} goes with --url or CELLSTORE_URL`, USAGE)
    return
  }
  if (optionOf(command, URL_FLAG)?.hidden === true) {
    command.error(
      `error: only the owner of a store can do this: leave out ${url}, and run the command on the node's machine`,
      USAGE,
    )
  }
  for (const flag of LOCAL_FLAGS) {
    const local = givenAs(command, flag)
    if (local === undefined) continue
    command.error(
      `error: ${local} names a store on this machine and ${url} a remote node: leave one out`,
      USAGE,
    )
  }
}

function hasOption(command: Command, flag: string): boolean {
  return optionOf(command, flag) !== undefined
}

function optionOf(command: Command, flag: string): Option | undefined {
  return command.options.find(({ long }) => long === flag)
}

/** The flag or the variable by which an option was given; undefined if it was not. */
function givenAs(command: Command, flag: string): string | undefined {
  const option = optionOf(command, flag)
  if (option === undefined) return undefined
  const source = command.getOptionValueSource(option.attributeName())
  return source === 'cli' ? flag : source === 'env' ? option.envVar : undefined
}

function commandsBelow(command: Command): Command[] {
  return [command, ...command.commands.flatMap(commandsBelow)]
}
