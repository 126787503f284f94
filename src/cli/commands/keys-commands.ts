import { randomBytes } from 'node:crypto'
import type { Command } from 'commander'
import { makeApiKey } from '../../auth/api-key.ts'
import { addStoreFlags, jsonOption, type StoreFlags } from '../flags.ts'
import { examples, formatTable, printNote, printResult } from '../output.ts'
import { runStoreCommand } from '../owner-command.ts'
import { addRemoteFlags } from '../remote/remote-flags.ts'
import type { CreateKeyInput, KeyDocument } from '../store-client.ts'

export function addKeysCommands(program: Command): void {
  const keys = program
    .command('keys')
    .summary('make, list and revoke API keys')
    .description(
      'An API key belongs to an account and gives access to the cells of that account only. The store keeps only hashes of keys, so a key is shown once, when it is made.',
    )
  addGenerate(keys)
  addCreate(keys)
  addList(keys)
  addRevoke(keys)
}

function addGenerate(keys: Command): void {
  keys
    .command('generate')
    .summary('print a new key for CELLSTORE_ROOT_KEY')
    .description(
      'Prints a new key with a valid checksum. It needs no store. No store knows the key yet: set CELLSTORE_ROOT_KEY to it for the first start of a store.',
    )
    .addOption(jsonOption())
    .addHelpText('after', examples('CELLSTORE_ROOT_KEY=$(cellstore keys generate) cellstore serve'))
    .action(({ json }: { json?: true }) =>
      printResult({ key: makeApiKey(randomBytes) }, json, ({ key }) => key),
    )
}

function addCreate(keys: Command): void {
  const command = keys
    .command('create')
    .summary('make a key and show it once')
    .description(
      'Makes a key and prints it once. If the store has only one account, the key belongs to it; otherwise --account or --new-account is needed.',
    )
    .option('--account <id>', 'the account that the key belongs to')
    .option('--new-account', 'make a new account for the key')
    .option('--name <name>', 'a name for people, such as what the key is for')
  command.addHelpText(
    'after',
    examples(
      'cellstore keys create --name laptop',
      'KEY=$(cellstore keys create)',
      'cellstore keys create --new-account --json | jq -r .key',
    ),
  )
  addRemoteFlags(addStoreFlags(command)).action(
    ({ account, newAccount, name, ...flags }: CreateKeyInput & StoreFlags) =>
      runStoreCommand(flags, async (client) => {
        const created = await client.createKey({ account, newAccount, name })
        printResult(created, flags.json, ({ key }) => key)
        const whose = created.account_id === undefined ? 'your account' : `account ${created.account_id}`
        printNote(flags.json, `This is key ${created.id} of ${whose}. It is shown only now.`)
      }),
  )
}

function addList(keys: Command): void {
  const command = keys
    .command('list')
    .summary('list the active keys, newest first')
    .description('Lists the active keys of every account, or of one, newest first.')
    .option('--account <id>', 'only the keys of this account')
    .addHelpText('after', examples('cellstore keys list', "cellstore keys list --json | jq -r '.[].id'"))
  addRemoteFlags(addStoreFlags(command)).action(({ account, ...flags }: { account?: string } & StoreFlags) =>
    runStoreCommand(flags, async (client) =>
      printResult(await client.listKeys({ account }), flags.json, showKeys),
    ),
  )
}

function addRevoke(keys: Command): void {
  const command = keys
    .command('revoke')
    .summary('revoke a key')
    .description('Revokes a key. The next request with it is refused. To revoke a key twice changes nothing.')
    .argument('<key-id>', 'the id of the key, as `keys list` prints it; not the key itself')
    .addHelpText('after', examples('cellstore keys revoke 3f0c6a52-8f0e-4b7e-9d64-0a4c1f0e7b11'))
  addRemoteFlags(addStoreFlags(command)).action((id: string, flags: StoreFlags) =>
    runStoreCommand(flags, async (client) => {
      const revoked = await client.revokeKey({ id })
      printResult(revoked, flags.json, () => `Revoked ${revoked.id} at ${revoked.revoked_at}.`)
    }),
  )
}

function showKeys(keys: readonly KeyDocument[]): string {
  return formatTable(
    ['ID', 'NAME', 'HINT', 'CREATED', 'LAST USED', 'ACCOUNT'],
    keys.map((key) => [
      key.id,
      key.name ?? '',
      `${key.hint}…`,
      key.created_at,
      key.last_used_at ?? 'never',
      key.account_id ?? 'yours',
    ]),
  )
}
