import { type Client, isProblem } from '../../client/index.ts'

/** What a key may do, as the server says. What it may not do is not shown. */
export interface Permissions {
  /** Change anything. */
  write: boolean
  /** More than key-value entries. */
  sql: boolean
  /** All cells of the account, and its keys. */
  account: boolean
  /** Accounts. */
  owner: boolean
}

/** Names no cell. The server checks what a key may do before it looks for the cell. */
const NO_CELL = '-'

/**
 * Asks the server, by requests that change nothing and are refused for what the key lacks.
 *
 * @throws `ProblemError` with the code `unauthorized`, and all other failures but refusals
 */
export async function askPermissions(client: Client): Promise<Permissions> {
  const [account, owner, sql, write] = await Promise.all([
    isAllowed(client.listCells({ limit: 1 })),
    isAllowed(client.listAccounts({ limit: 1 })),
    isAllowed(client.getCell({ id: NO_CELL })),
    isAllowed(client.kvDeleteMany({ id: NO_CELL, keys: ['-'] })),
  ])
  return { account, owner, sql, write }
}

async function isAllowed(call: Promise<unknown>): Promise<boolean> {
  try {
    await call
    return true
  } catch (error) {
    if (isProblem(error, 'forbidden')) return false
    if (isProblem(error, 'cell_not_found')) return true
    throw error
  }
}
