import type { Clock } from '../base/clock.ts'
import type { KeyScope, KeyScopeOptions } from './key-scope.ts'

/** An API key, as the store knows it: without the key itself. */
export interface ApiKeyRecord extends KeyScope {
  id: string
  /** For people; null if it has none. */
  name: string | null
  /** The key's first 12 characters, by which its owner recognises it. */
  hint: string
  /** Epoch milliseconds. */
  createdAt: number
  /** Epoch milliseconds, exact to a minute; null if it was never used. */
  lastUsedAt: number | null
}

/** A new API key. */
export interface CreatedApiKey extends Omit<ApiKeyRecord, 'lastUsedAt'> {
  /** The key itself. It is kept nowhere, and cannot be shown again. */
  key: string
}

/** The key that takes the place of another one. */
export interface RotatedApiKey extends CreatedApiKey {
  /** The other one. It is refused from `expiresAt` on, in epoch milliseconds. */
  replaces: { id: string; expiresAt: number }
}

/** What a new API key may do, and for how long. */
export interface CreateApiKeyOptions extends KeyScopeOptions {
  /** For people, at most 255 characters; need not be unique. */
  name?: string | undefined
  /** A key to use instead of a new one, such as a node's root key. */
  key?: string | undefined
  /** The scope of the key that asks: the new one may do no more, and lives no longer. @internal */
  by?: KeyScope | undefined
}

/** How long the old key works, and the new one. */
export interface RotateApiKeyOptions {
  /** Milliseconds for which the old key still works; by default a day, at most 30. 0: it is refused at once. */
  graceMs?: number
  /** When the new key expires, in epoch milliseconds; null: never. By default when the old one was made to. */
  expiresAt?: number | null
  /** As in {@link CreateApiKeyOptions}. @internal */
  by?: KeyScope | undefined
}

/** Which keys, and how many of them. */
export interface ApiKeyListOptions {
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Keys on the page; by default and at most the store's limit `pageMax`. */
  limit?: number | undefined
}

/** A page of the active keys of an account. */
export interface ApiKeyPage {
  /** Newest first. */
  keys: ApiKeyRecord[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}

/** Whose key it is, and what it may do. */
export interface VerifiedApiKey {
  keyId: string
  accountId: string
  scope: KeyScope
  /** Epoch milliseconds from which on the key is refused: it expires, or a rotation has replaced it. Null: never. */
  endsAt: number | null
}

/** Whether a key's time is over. */
export function hasEnded({ endsAt }: Pick<VerifiedApiKey, 'endsAt'>, clock: Clock): boolean {
  return endsAt !== null && clock.now() >= endsAt
}
