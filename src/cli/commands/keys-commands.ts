import { randomBytes } from 'node:crypto'
import type { Command } from 'commander'
import { makeApiKey } from '../../auth/api-key.ts'
import type { CreateKeyInput } from '../admin/admin-service.ts'
import type { KeyDocument } from '../admin/documents.ts'
import { runAdmin } from '../admin-command.ts'
import { examples } from '../examples.ts'
import { addStoreFlags, jsonOption, type StoreFlags } from '../flags.ts'
import { printNote, printResult } from '../output.ts'
import { formatTable } from '../text-table.ts'

export function addKeysCommands(program: Command): void {
  const keys = program
    .command('keys')
    .summary('make, list and revoke API keys')
    .description(
      'API keys belong to accounts; a key reaches the cells of its account and nothing else. Only hashes of keys are stored: a key is shown when it is made, and never again.',
    )
  addGenerate(keys)
  addCreate(keys)
  addList(keys)
  addRevoke(keys)
}

function addGenerate(keys: Command): void {
  keys
    .command('generate')
    .summary('print a fresh key, for CELLSTORE_ROOT_KEY')
    .description(
      'Prints a fresh key with a valid checksum. It needs no store and is good for nothing yet: give it to the first start of a store in CELLSTORE_ROOT_KEY.',
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
    .summary('make a key, and show it this once')
    .description(
      'Makes a key and prints it, this once. Without --account it is the key of the only account there is.',
    )
    .option('--account <id>', 'the account that the key is of')
    .option('--new-account', 'make a new account for it')
    .option('--name <name>', 'for people: what the key is for')
  command.addHelpText(
    'after',
    examples(
      'cellstore keys create --name laptop',
      'KEY=$(cellstore keys create)',
      'cellstore keys create --new-account --json | jq -r .key',
    ),
  )
  addStoreFlags(command).action(({ account, newAccount, name, ...flags }: CreateKeyInput & StoreFlags) =>
    runAdmin(flags, async (admin) => {
      const created = await admin.createKey({ account, newAccount, name })
      printResult(created, flags.json, ({ key }) => key)
      printNote(
        flags.json,
        `This is key ${created.id} of account ${created.account_id}. It is not shown again.`,
      )
    }),
  )
}

function addList(keys: Command): void {
  const command = keys
    .command('list')
    .summary('list the active keys, newest first')
    .description('Lists the active keys, newest first: of every account, or of one.')
    .option('--account <id>', 'only the keys of this account')
    .addHelpText('after', examples('cellstore keys list', "cellstore keys list --json | jq -r '.[].id'"))
  addStoreFlags(command).action(({ account, ...flags }: { account?: string } & StoreFlags) =>
    runAdmin(flags, async (admin) => printResult(await admin.listKeys({ account }), flags.json, showKeys)),
  )
}

function addRevoke(keys: Command): void {
  const command = keys
    .command('revoke')
    .summary('revoke a key')
    .description(
      'Revokes a key: from the very next request on it is refused. Doing it twice changes nothing.',
    )
    .argument('<key-id>', 'the id of the key, as `keys list` shows it; not the key itself')
    .addHelpText('after', examples('cellstore keys revoke 3f0c6a52-8f0e-4b7e-9d64-0a4c1f0e7b11'))
  addStoreFlags(command).action((id: string, flags: StoreFlags) =>
    runAdmin(flags, async (admin) => {
      const revoked = await admin.revokeKey({ id })
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
      key.account_id,
    ]),
  )
}
