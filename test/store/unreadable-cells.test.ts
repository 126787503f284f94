import fs from 'node:fs'
import { expect, test } from 'vitest'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { KeptLog } from '../support/kept-log.ts'
import { outOfReach } from '../support/out-of-reach.ts'
import { perTest } from '../support/per-test.ts'
import { turnsUntil } from '../support/turns.ts'

const place = ScratchPlace.perTest()
const log = perTest(() => new KeptLog())

const refused = (cellId: string) => ({ cellId, err: { code: 'ELOOP' } })

test('after a power loss, the changes of all cells are found although one cell is unreadable, and the next start looks for its own', async () => {
  const store = await place.create()
  const [a, b] = [createLedger(store), createLedger(store)]
  for (const cell of [a, b]) addRow(cell, 'no backup has it')
  await store.close()
  for (const suffix of ['', '-wal', '-shm']) fs.rmSync(place.paths.localState + suffix, { force: true })
  const back = outOfReach(place.paths.cell(a.id).directory)
  const opened = await place.open({ log })
  const progress = opened.core.destination?.progress
  await turnsUntil(() => progress?.find(b.id).dirty === true, 'the change of the second cell is known')
  expect(log.errors).toMatchObject([refused(a.id)])
  await opened.close()
  back()
  const again = await place.open()
  const found = () => again.core.destination?.progress.find(a.id).dirty === true
  await turnsUntil(found, 'the change of the first cell is known')
})

test('lost cells come back although another cell is unreadable, and that one is not taken for lost (invariant 14)', async () => {
  const store = await place.create()
  const [a, b, c] = [createLedger(store), createLedger(store), createLedger(store)]
  for (const cell of [a, b, c]) addRow(cell, 'one')
  for (const cell of [a, b, c]) await store.backups.snapshot(cell.id)
  addRow(b, 'two')
  await store.close()
  for (const cell of [a, c]) fs.rmSync(place.paths.cell(cell.id).directory, { recursive: true })
  const back = outOfReach(place.paths.cell(b.id).directory)
  const opened = await place.open({ log })
  const ended = () => opened.metrics().backups?.recovery?.endedAt != null
  await place.advanceUntil(turnsUntil(ended, 'the lost cells are back'))
  for (const cell of [a, c]) expect(notes(opened.openCell(cell.id))).toEqual(['one'])
  expect(opened.metrics().backups?.recovery).toMatchObject({ cells: 2, recovered: 2 })
  expect(log.errors).toMatchObject([refused(b.id)])
  back()
  expect(notes(opened.openCell(b.id))).toEqual(['one', 'two'])
})

test('lists, sizes and the census have all cells although one is unreadable, and the log names it once', async () => {
  const store = await place.create({ log })
  const [a, b] = [createLedger(store), createLedger(store)]
  await store.backups.snapshot(b.id)
  const whole = store.cells().cells.map(({ sizeBytes }) => sizeBytes)
  const size = whole[1] as number
  const back = outOfReach(place.paths.cell(a.id).directory)
  const since = place.clock.now()
  for (let look = 0; look < 2; look++) {
    expect(store.cells().cells.map(({ sizeBytes }) => sizeBytes)).toEqual([0, size])
    expect(await store.lookAt([a.id, b.id])).toEqual([
      { sizeBytes: 0, isQuarantined: true },
      { sizeBytes: size, isQuarantined: false },
    ])
    expect(await store.core.census.take()).toMatchObject({
      cells: 2,
      bytes: size,
      quarantined: [{ cellId: a.id, reason: 'io_error', since }],
      quarantinedCount: 1,
    })
    place.clock.advance(1_000)
  }
  expect(log.errors).toMatchObject([refused(a.id)])
  back()
  expect(await store.lookAt([a.id, b.id])).toEqual(
    whole.map((sizeBytes) => ({ sizeBytes, isQuarantined: false })),
  )
  expect(await store.core.census.take()).toMatchObject({ quarantinedCount: 0 })
})
