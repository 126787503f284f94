import type { Call } from './action.ts'

/** Writes a change of a key to the store's log: which key and whose, and never the key. */
export function logKeyChange(
  { context: { store }, requestId }: Call,
  change: 'created' | 'revoked' | 'rotated',
  { id: keyId, accountId }: { id: string; accountId: string },
): void {
  store.settings.log.info({ keyId, accountId, requestId }, `an API key is ${change}`)
}
