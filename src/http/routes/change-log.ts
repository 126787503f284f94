import type { Call } from '../core/action.ts'

/** What can happen to a key, as its line of the log says it. */
export const KEY_CHANGES = ['created', 'revoked', 'rotated'] as const
/** What can happen to an account, as its line of the log says it. */
export const ACCOUNT_CHANGES = [
  'an account is created',
  'an account is suspended',
  'an account is resumed',
  'the quotas of an account are changed',
] as const

/** What can happen to a cell besides its backups and its deletion, as its line of the log says it. */
export const CELL_CHANGES = [
  'a cell is created',
  'a cell is imported',
  'a cell is renamed',
  'a cell is exported',
] as const

interface ChangedKey {
  id: string
  accountId: string
  /** Of a rotation: the key that comes in its place. */
  newKeyId?: string
}

/** Writes a change of a key to the store's log: which key and whose, and never the key. */
export function logKeyChange(
  { context: { store }, requestId }: Call,
  change: (typeof KEY_CHANGES)[number],
  { id: keyId, ...key }: ChangedKey,
): void {
  store.settings.log.info({ keyId, ...key, requestId }, `an API key is ${change}`)
}

/** Writes what was done to a cell to the store's log. Its name is its account's, and stays out. */
export function logCellChange(
  { context: { store }, requestId }: Call,
  change: (typeof CELL_CHANGES)[number],
  cellId: string,
  fields: { sizeBytes?: number } = {},
): void {
  store.settings.log.info({ cellId, ...fields, requestId }, change)
}

/** Writes a change of an account to the store's log. */
export function logAccountChange(
  { context: { store }, requestId }: Call,
  change: (typeof ACCOUNT_CHANGES)[number],
  accountId: string,
): void {
  store.settings.log.info({ accountId, requestId }, change)
}
