import { type Command, InvalidArgumentError, Option } from 'commander'
import type { AccountDocument } from '../../http/answers/account-answers.ts'
import { addStoreFlags, BYTES_FORM, parseBytes, type StoreFlags } from '../flags.ts'
import { allPages, runOwnerCommand } from '../owner-command.ts'
import { examples, formatTable, printNote, printResult } from '../terminal/output.ts'

export function addAccountsCommands(program: Command): void {
  const accounts = program
    .command('accounts')
    .summary('make, list, suspend and bound accounts')
    .description('Cells and API keys belong to accounts. An account never sees what belongs to another one.')
  addCreate(accounts)
  addList(accounts)
  addSuspend(accounts)
  addResume(accounts)
  addQuotas(accounts)
}

function addCreate(accounts: Command): void {
  const command = accounts
    .command('create')
    .summary('make an account, and print its id')
    .description('Makes an account and prints its id. It has no key yet: `keys create --account` makes one.')
    .option('--name <name>', 'a name for people; it need not be unique')
    .addHelpText(
      'after',
      examples(
        'ACCOUNT=$(cellstore accounts create --name acme)',
        'cellstore keys create --account "$ACCOUNT"',
      ),
    )
  addStoreFlags(command).action(({ name, ...flags }: { name?: string } & StoreFlags) =>
    runOwnerCommand(flags, async (client) =>
      printResult(await client.createAccount({ name }), flags.json, ({ id }) => id),
    ),
  )
}

function addList(accounts: Command): void {
  const command = accounts
    .command('list')
    .summary('list the accounts, oldest first')
    .description("Lists all accounts, oldest first, with the quotas that they have in place of the store's.")
    .addHelpText(
      'after',
      examples('cellstore accounts list', "cellstore accounts list --json | jq -r '.accounts[].id'"),
    )
  addStoreFlags(command).action((flags: StoreFlags) =>
    runOwnerCommand(flags, async (client) => {
      const all = await allPages(
        (cursor) => client.listAccounts({ cursor }),
        (page) => page.accounts,
      )
      printResult({ accounts: all, next_cursor: null }, flags.json, () => showAccounts(all))
    }),
  )
}

function addSuspend(accounts: Command): void {
  const command = accounts
    .command('suspend')
    .summary('refuse the keys of an account')
    .description(
      'Refuses every request with the keys of an account from now on, also those that wait. Its data and its backups stay, and scheduled backups go on.',
    )
    .argument('<account>', 'the id of the account; its name is only for people')
    .addHelpText('after', examples('cellstore accounts suspend "$ACCOUNT"'))
  addStoreFlags(command).action((id: string, flags: StoreFlags) => setSuspended(id, true, flags))
}

function addResume(accounts: Command): void {
  const command = accounts
    .command('resume')
    .summary('end the suspension of an account')
    .description('Ends the suspension of an account: its keys are accepted again.')
    .argument('<account>', 'the id of the account; its name is only for people')
    .addHelpText('after', examples('cellstore accounts resume "$ACCOUNT"'))
  addStoreFlags(command).action((id: string, flags: StoreFlags) => setSuspended(id, false, flags))
}

function setSuspended(id: string, suspended: boolean, flags: StoreFlags): Promise<void> {
  return runOwnerCommand(flags, async (client) => {
    const account = await client.setSuspended({ id, suspended })
    const state = suspended ? `is suspended since ${account.suspended_at}` : 'is not suspended'
    printResult(account, flags.json, () => `Account ${id} ${state}.`)
  })
}

const DEFAULT = 'default'
const NUMBER_FORM = 'a whole number above 0'
type Quota = number | typeof DEFAULT
type QuotaFlags = { cells?: Quota; keys?: Quota; bytes?: Quota; rate?: Quota } & StoreFlags

function addQuotas(accounts: Command): void {
  const command = accounts
    .command('quotas')
    .summary('show or change the quotas of an account')
    .description(
      "Shows the account's own quotas, and changes those that are given. A number bounds the account from the next request on; default lets the store's own quota hold again.",
    )
    .argument('<account>', 'the id of the account; its name is only for people')
    .addOption(quotaOption('--cells <number|default>', 'cells that it may have'))
    .addOption(quotaOption('--keys <number|default>', 'active API keys that it may have'))
    .addOption(
      quotaOption('--bytes <bytes|default>', 'bytes that its cells may store, such as 100MiB', BYTES_FORM),
    )
    .addOption(quotaOption('--rate <number|default>', 'requests per second that it may make'))
    .addHelpText(
      'after',
      examples('cellstore accounts quotas "$ACCOUNT" --cells 100 --bytes 2GiB --rate default'),
    )
  addStoreFlags(command).action((id: string, { cells, keys, bytes, rate, ...flags }: QuotaFlags) =>
    runOwnerCommand(flags, async (client) => {
      const asked = { cells_max: cells, api_keys_max: keys, bytes_max: bytes, requests_per_second: rate }
      const given = Object.entries(asked)
        .filter(([, quota]) => quota !== undefined)
        .map(([name, quota]) => [name, quota === DEFAULT ? null : quota])
      const before = await client.account({ id })
      const quotas = { ...before.quotas, ...Object.fromEntries(given) }
      const account = given.length === 0 ? before : await client.setQuotas({ id, quotas })
      printResult(account, flags.json, showQuotas)
      if (given.length > 0) printNote(flags.json, 'The quotas hold from the next request on.')
    }),
  )
}

/** @param form what else than default it must be */
function quotaOption(flags: string, description: string, form: string = NUMBER_FORM): Option {
  return new Option(flags, description).argParser((text) => {
    if (text === DEFAULT) return text
    const quota = form === BYTES_FORM ? parseBytes(text) : /^\d{1,15}$/.test(text) ? Number(text) : 0
    if (Number.isSafeInteger(quota) && quota > 0) return quota
    throw new InvalidArgumentError(`It must be ${form}, or default.`)
  })
}

const HEADINGS = ['CELLS', 'KEYS', 'BYTES', 'REQUESTS/S'] as const

function showAccounts(accounts: readonly AccountDocument[]): string {
  return formatTable(
    ['ID', 'NAME', 'CREATED', 'SUSPENDED', ...HEADINGS],
    accounts.map((account) => [
      account.id,
      account.name ?? '',
      account.created_at,
      account.suspended_at ?? 'no',
      ...quotaTexts(account),
    ]),
  )
}

function showQuotas(account: AccountDocument): string {
  return formatTable(HEADINGS, [quotaTexts(account)])
}

function quotaTexts({ quotas }: AccountDocument): string[] {
  const { cells_max, api_keys_max, bytes_max, requests_per_second } = quotas
  return [cells_max, api_keys_max, bytes_max, requests_per_second].map((quota) => String(quota ?? 'default'))
}
