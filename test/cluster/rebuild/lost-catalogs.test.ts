import { expect, test } from 'vitest'
import { firstAssignment } from '../../../src/catalog/assignment/assignment.ts'
import type { NodeRow } from '../../../src/cluster/membership/node-table.ts'
import { lostCatalogs } from '../../../src/cluster/rebuild/lost-catalogs.ts'
import { ScriptedCluster } from '../../support/scripted-cluster.ts'

const DAY_MS = 86_400_000
const NO_LOG = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** Node A looks; B and C, each with an account that the other nodes do not know, have stored their catalogs and have ended. */
async function setUp() {
  const cluster = new ScriptedCluster()
  await cluster.start('A')
  for (const name of ['B', 'C']) {
    const { store } = await cluster.start(name)
    store.accounts.create({ name: `made at ${name}` })
    await cluster.stop(name)
  }
  const head = { version: 1, incarnation: '', server: '' }
  const found = async (startedMs: number, owner: string, rows: readonly string[]) => {
    const nodes = rows.map((prefix) => ({ prefix }) as NodeRow)
    const names: string[] = []
    const parts = {
      table: { list: async () => ({ nodes, head }) },
      bucket: cluster.bucket(),
      prefix: '',
      assignments: { newest: async () => firstAssignment(owner, owner === 'A' ? '' : `nodes/${owner}/`) },
      clock: cluster.clock,
      log: NO_LOG,
    }
    for await (const catalog of lostCatalogs(parts, `7-00000001-${startedMs / 1_000}`))
      names.push(...(catalog.prepare('SELECT name FROM accounts').pluck().all() as string[]))
    return names
  }
  return { found, now: () => cluster.clock.now() }
}

test('What lost nodes have stored is taken in of all that have ended since PostgreSQL was started, and of all that still have cells', async () => {
  const { found, now } = await setUp()
  expect(await found(now() - DAY_MS, 'A', [''])).toEqual(['made at B', 'made at C'])
  expect(await found(now() + DAY_MS, 'A', [''])).toEqual([])
  expect(await found(now() + DAY_MS, 'C', [''])).toEqual(['made at C'])
  // Those that hand in what they know themselves.
  expect(await found(now() - DAY_MS, 'A', ['', 'nodes/B/', 'nodes/C/'])).toEqual([])
})
