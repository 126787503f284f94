import type { Attack } from './attack.ts'
import { INSERT, newTables, send } from './hold-attacks.ts'
import { pause, repeat, type Tenant } from './tenant.ts'

const ACCOUNTS = 20
/** As many transactions as an account may hold in a worker. */
const CELLS_EACH = 16

/** The same of many accounts at once. Each may cost a worker; a neighbour has its part of the time beside them. */
function byMany(step: (tenant: Tenant, cell: string) => Promise<unknown>): Attack {
  return async (tenant) => {
    const tenants = await tenant.newTenants(ACCOUNTS)
    const cells = await Promise.all(tenants.map((each) => newTables(each, CELLS_EACH)))
    return (signal) =>
      Promise.all(
        tenants.map((each, i) =>
          repeat(each, signal, 1, async (turn) => {
            await step(each, cells[i]?.[turn % CELLS_EACH] as string)
            await pause(20, signal)
          }),
        ),
      )
  }
}

export const crowds: Record<string, Attack> = {
  'control: many accounts that each change their cells': byMany((tenant, cell) => tenant.sql(cell, INSERT)),
  'holds that nobody ends, by every account at once': byMany((tenant, cell) =>
    send(tenant, cell, ['BEGIN IMMEDIATE', INSERT]),
  ),
}
