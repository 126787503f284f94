import { type Command, InvalidArgumentError, Option } from 'commander'
import { systemClock } from '../base/clock.ts'
import { CellError } from '../errors.ts'
import { parseDuration } from './flags.ts'
import type { CreateKeyInput } from './store-client.ts'

/** The flags of a key's scope. */
export interface KeyFlags {
  owner?: true
  readOnly?: true
  cell?: string[]
  kvOnly?: true
  /** RFC 3339. */
  expires?: string
}

/** Adds the flags of {@link KeyFlags}. */
export function addKeyFlags(command: Command): Command {
  return command
    .option('--owner', 'the key may also make, suspend and change accounts')
    .option('--read-only', 'the key changes nothing')
    .option('--cell <cell...>', 'the key is only for this cell, or these cells: ids or names')
    .option('--kv-only', 'the key is only for key-value entries')
    .addOption(expiresOption('when the key expires: after 30d, say, or at 2027-01-31T12:00:00Z'))
}

export function expiresOption(description: string): Option {
  return new Option('--expires <duration|time>', description).argParser(parseExpiry)
}

/** @throws `invalid_setting` for flags that contradict each other */
export function scopeOfFlags({ owner, readOnly, cell, kvOnly, expires }: KeyFlags): CreateKeyInput {
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
