import type { Attack } from './attack.ts'
import { bodyAttacks } from './body-attacks.ts'
import { catalogAttacks } from './catalog-attacks.ts'
import { connectionAttacks } from './connection-attacks.ts'
import { costlySqlAttacks } from './costly-sql-attacks.ts'
import { diskAttacks } from './disk-attacks.ts'
import { holdAttacks } from './hold-attacks.ts'
import { schemaAttacks } from './schema-attacks.ts'

/** Attacks with valid requests. Each begins with the number of its fault in the list of issue 8, or with 0 for those that were known before; those of later issues have none. */
export const accountAttacks: Readonly<Record<string, Attack>> = {
  ...bodyAttacks,
  ...schemaAttacks,
  ...costlySqlAttacks,
  ...diskAttacks,
  ...catalogAttacks,
  ...holdAttacks,
}

/** By name, with those that a proxy is there for. */
export const ATTACKS: Readonly<Record<string, Attack>> = { ...connectionAttacks, ...accountAttacks }
