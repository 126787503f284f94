import { expect, test } from 'vitest'
import { Bench, type Reply } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES } from '../support/http/transports.ts'
import { COUNT, checkProblem, TIME, UNKNOWN_ID } from './rows/row.ts'

/** What becomes of a cell's versions, for its account to see, and pins of the owner. */

test.each(TRANSPORTS_AND_NODES)(
  'through %s, an account sees what stays and why; an owner pins a version',
  async (_, transport) => {
    const bench = await Bench.open(transport)
    const ownerKey = bench.store.apiKeys.create(bench.accountId, { access: 'owner' }).key
    const look = (key = bench.key, id = bench.cell) =>
      bench.send({ method: 'GET', path: `/v1/databases/${id}/retention`, key })
    const reasonOf = ({ json }: Reply) => (json as { versions: { reason: string }[] }).versions[0]?.reason
    const set = (what: string, version: string, key = ownerKey) =>
      bench.send({ method: 'POST', path: `/v1/databases/{cell}/backups/${what}`, body: { version }, key })

    expect((await look()).json).toMatchObject({ plan: expect.any(String), versions: [] })
    const made = await bench.send({ method: 'POST', path: '/v1/databases/{cell}/backup' })
    const { version } = made.json as { version: string }
    expect((await look()).json).toEqual({
      plan: expect.stringMatching(/^all:/),
      tenant_plan: expect.stringMatching(/^all:/),
      versions: [
        {
          version,
          size_bytes: COUNT,
          created_at: TIME,
          origin: 'tenant',
          restorable: true,
          action: 'keep',
          reason: expect.any(String),
          step: expect.toBeOneOf([null, expect.any(String)]),
          marked_at: null,
        },
      ],
    })

    expect((await set('pin', version)).json).toEqual({ version, pinned: true })
    expect(reasonOf(await look())).toBe('pinned')
    checkProblem(await set('unpin', version, bench.key), 403, { code: 'forbidden' })
    expect(reasonOf(await look())).toBe('pinned')
    expect((await set('unpin', version)).json).toEqual({ version, pinned: false })
    expect(reasonOf(await look())).not.toBe('pinned')

    // Neither a look nor a pin reaches another account's cell.
    const theirs = bench.store.createCell({ accountId: bench.strangerId }).id
    for (const id of [theirs, UNKNOWN_ID])
      checkProblem(await look(ownerKey, id), 404, { code: 'cell_not_found' })
    bench.cell = theirs
    const stored = await bench.store.backups.snapshot(theirs)
    checkProblem(await set('pin', stored.version), 404, { code: 'cell_not_found' })
    await bench.close()
  },
)
