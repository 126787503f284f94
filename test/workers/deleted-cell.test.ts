import { expect, test } from 'vitest'
import { rejectedBy } from '../support/thrown.ts'
import { openWorkerStore } from '../support/worker-store.ts'

test('a cell that is deleted while it is described is not described', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  const described = rejectedBy(service.describe(id))
  await service.deleteCell(id)
  expect((await described).code).toBe('cell_not_found')
})
