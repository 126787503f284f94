import type { Attack } from './attack.ts'
import { bodyAttacks } from './body-attacks.ts'
import { catalogAttacks } from './catalog-attacks.ts'
import { connectionAttacks } from './connection-attacks.ts'
import { costlySqlAttacks } from './costly-sql-attacks.ts'
import { diskAttacks } from './disk-attacks.ts'
import { schemaAttacks } from './schema-attacks.ts'

/** By name; each begins with the number of its fault in the list of issue 8, or with 0 for attacks that were known before. */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  ...connectionAttacks,
  ...bodyAttacks,
  ...schemaAttacks,
  ...costlySqlAttacks,
  ...diskAttacks,
  ...catalogAttacks,
}
