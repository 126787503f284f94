import { expect, test } from 'vitest'
import { OpenHolds } from '../../../src/service/holds/open-holds.ts'
import { HranaConnection } from '../../../src/service/hrana/hrana-connection.ts'
import { openTestCell } from '../../support/open-test-store.ts'

test('foreign keys are on again for everybody after a pipeline that has failed, also if its transaction was late by then', async () => {
  const { cell, clock } = await openTestCell()
  const holds = new OpenHolds({ timeoutMs: 5_000, idleMs: 1_000, perAccount: 3, total: 5 })
  const enforced = () => cell.get('PRAGMA foreign_keys', [], { policy: 'trusted' })
  for (const lateMs of [0, 6_000])
    holds.run(cell, { id: `late ${lateMs}`, isOpen: false }, { accountId: '' }, (session) => {
      const result = { rowsMax: 1_000, bytesMax: 1_000_000 }
      const context = { sqlPolicy: 'tenant', clock, session, result } as const
      const connection = new HranaConnection(() => session.cell, session, context)
      const carryOut = (control: object) =>
        connection.execute({ control, params: [], wantRows: false, changes: false } as never, () => {})
      carryOut({ control: 'foreign keys', isOn: false })
      expect(enforced()).toEqual({ foreign_keys: 0 })
      carryOut({ control: 'begin' })
      // A statement that takes as long lets no timer come.
      const late = clock.monotonic() + lateMs
      clock.monotonic = () => late
      connection.abandon()
      expect(enforced()).toEqual({ foreign_keys: 1 })
    })
})
