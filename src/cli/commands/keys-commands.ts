import { randomBytes } from 'node:crypto'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { makeApiKey } from '../../auth/api-key.ts'
import { systemClock } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import { addStoreFlags, durationOption, jsonOption, parseDuration, type StoreFlags } from '../flags.ts'
import { runStoreCommand, USAGE } from '../owner-command.ts'
import { addRemoteFlags } from '../remote/remote-flags.ts'
import type { CreateKeyInput, KeyDocument } from '../store-client.ts'
import { examples, formatTable, printNote, printResult } from '../terminal/output.ts'

export function addKeysCommands(program: Command): void {
  const keys = program
    .command('keys')
    .summary('make, list, rotate and revoke API keys')
    .description(
      'An API key belongs to an account and gives access to the cells of that account only. The store keeps only hashes of keys, so a key is shown once, when it is made.',
    )
  addGenerate(keys)
  addCreate(keys)
  addList(keys)
  addRotate(keys)
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
  addKeyFlags(command).addHelpText(
    'after',
    examples(
      'cellstore keys create --name laptop',
      'KEY=$(cellstore keys create)',
      'cellstore keys create --new-account --json | jq -r .key',
      'cellstore keys create --read-only --cell acme --expires 30d',
    ),
  )
  addRemoteFlags(addStoreFlags(command)).action(({ account, newAccount, name, ...flags }: CreateKeyFlags) => {
    const scope = scopeOfFlags(flags)
    return runStoreCommand(flags, async (client) => {
      const created = await client.createKey({ account, newAccount, name, ...scope })
      printResult(created, flags.json, ({ key }) => key)
      const whose = created.account_id === undefined ? 'your account' : `account ${created.account_id}`
      printNote(flags.json, `This is key ${created.id} of ${whose}. It is shown only now.`)
    })
  })
}

type CreateKeyFlags = { account?: string; newAccount?: boolean; name?: string } & KeyFlags & StoreFlags
type RotateKeyFlags = { grace?: number; now?: true; expires?: string } & StoreFlags

function addRotate(keys: Command): void {
  const command = keys
    .command('rotate')
    .summary('make a key in place of another one')
    .description(
      'Makes a key with the same name and scope, and prints it once. The old key still works for its grace, a day by default.',
    )
    .argument('<key-id>', 'the id of the old key, as `keys list` prints it; not the key itself')
    .addOption(durationOption('--grace <duration>', 'how long the old key still works; 24h by default'))
    .option('--now', 'refuse the old key at once, without a grace')
    .addOption(expiresOption('when the new key expires; by default when the old one was made to'))
  command.addHelpText(
    'after',
    examples('cellstore keys rotate 3f0c6a52-8f0e-4b7e-9d64-0a4c1f0e7b11 --grace 1h'),
  )
  addRemoteFlags(addStoreFlags(command)).action(
    (id: string, { grace, now, expires, ...flags }: RotateKeyFlags) => {
      if (now === true && grace !== undefined) command.error('error: use --grace or --now, not both', USAGE)
      return runStoreCommand(flags, async (client) => {
        const graceMs = now === true ? 0 : grace
        const rotated = await client.rotateKey({ id, grace_ms: graceMs, expires_at: expires })
        printResult(rotated, flags.json, ({ key }) => key)
        const { id: oldId, expires_at } = rotated.replaces
        const until = now === true ? 'is refused from now on' : `works until ${expires_at}`
        printNote(flags.json, `This is key ${rotated.id}. It is shown only now. Key ${oldId} ${until}.`)
      })
    },
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
    ['ID', 'NAME', 'HINT', 'MAY', 'CREATED', 'LAST USED', 'EXPIRES', 'ACCOUNT'],
    keys.map((key) => [
      key.id,
      key.name ?? '',
      `${key.hint}…`,
      mayOf(key),
      key.created_at,
      key.last_used_at ?? 'never',
      key.expires_at ?? 'never',
      key.account_id ?? 'yours',
    ]),
  )
}

/** `read kv in 2 cells`. */
function mayOf({ access, surface, cell_ids }: KeyDocument): string {
  const cells = cell_ids === null ? '' : ` in ${cell_ids.length} ${cell_ids.length === 1 ? 'cell' : 'cells'}`
  return `${access}${surface === 'kv' ? ' kv' : ''}${cells}`
}

/** The flags of a key's scope. */
interface KeyFlags {
  owner?: true
  readOnly?: true
  cell?: string[]
  kvOnly?: true
  /** RFC 3339. */
  expires?: string
}

/** Adds the flags of {@link KeyFlags}. */
function addKeyFlags(command: Command): Command {
  return command
    .option('--owner', 'the key may also make, suspend and change accounts')
    .option('--read-only', 'the key changes nothing')
    .option('--cell <cell...>', 'the key is only for this cell, or these cells: ids or names')
    .option('--kv-only', 'the key is only for key-value entries')
    .addOption(expiresOption('when the key expires: after 30d, say, or at 2027-01-31T12:00:00Z'))
}

function expiresOption(description: string): Option {
  return new Option('--expires <duration|time>', description).argParser(parseExpiry)
}

/** @throws `invalid_setting` for flags that contradict each other */
function scopeOfFlags({ owner, readOnly, cell, kvOnly, expires }: KeyFlags): CreateKeyInput {
  if (owner === true && readOnly === true) {
    throw new CellError('invalid_setting', 'A key with --owner may do everything: leave out --read-only.')
  }
  return {
    access: owner === true ? 'owner' : readOnly === true ? 'read' : undefined,
    cell_ids: cell,
    surface: kvOnly === true ? 'kv' : undefined,
    expires_at: expires,
  }
}

/** @returns RFC 3339 */
function parseExpiry(text: string): string {
  if (/^\d{4}-\d\d-\d\dT/.test(text)) {
    const time = Date.parse(text)
    if (!Number.isNaN(time)) return new Date(time).toISOString()
  }
  try {
    return new Date(systemClock.now() + parseDuration(text)).toISOString()
  } catch {
    throw new InvalidArgumentError(
      'It must be a duration such as 30d, or a time such as 2027-01-31T12:00:00Z.',
    )
  }
}
