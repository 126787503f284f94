import type { Attack } from './attack.ts'
import { bodyAttacks } from './body-attacks.ts'
import { catalogAttacks } from './catalog-attacks.ts'
import { connectionAttacks } from './connection-attacks.ts'
import { costlySqlAttacks } from './costly-sql-attacks.ts'
import { diskAttacks } from './disk-attacks.ts'
import { schemaAttacks } from './schema-attacks.ts'

/** Attacks with valid requests. Each begins with the number of its fault in the list of issue 8, or with 0 for those that were known before. */
export const accountAttacks: Readonly<Record<string, Attack>> = {
  ...bodyAttacks,
  ...schemaAttacks,
  ...costlySqlAttacks,
  ...diskAttacks,
  ...catalogAttacks,
}

/** By name, with those that a proxy is there for. */
export const ATTACKS: Readonly<Record<string, Attack>> = { ...connectionAttacks, ...accountAttacks }
