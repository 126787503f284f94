import type { CreateCellOptions } from '../../../src/store/cells/cell-directory.ts'

/** The i-th creation of an account's client, the same each time it is repeated. */
export function creationOf(accountId: string, i: number): CreateCellOptions {
  const idempotency = { method: 'POST', path: '/v1/databases', key: `creation ${i}`, fingerprint: '' }
  return { name: `cell ${i}`, accountId, idempotency }
}
