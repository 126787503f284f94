import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { KeptLog } from '../../support/kept-log.ts'
import { perTest } from '../../support/per-test.ts'

const place = ScratchPlace.perTest()
const log = perTest(() => new KeptLog())

/** Two versions of a cell whose files are lost then, and not the machine. */
async function loseFiles() {
  const store = await place.create()
  const cell = createLedger(store)
  createLedger(store)
  const versions: string[] = []
  for (const note of ['one', 'two']) {
    addRow(cell, note)
    versions.push((await store.backups.snapshot(cell.id)).version)
  }
  await store.close()
  fs.rmSync(place.paths.cell(cell.id).directory, { recursive: true })
  return { id: cell.id, versions }
}

describe('A cell whose files are lost', () => {
  test('and whose newest backup somebody removed is set back with an error that names it', async () => {
    const { id, versions } = await loseFiles()
    const [one, two] = versions as [string, string]
    fs.rmSync(path.join(place.objects, two))
    const store = await place.open({ log })
    await store.openCell(id).ensureLocal()
    expect(notes(store.openCell(id))).toEqual(['one'])
    expect(log.errors).toMatchObject([{ cellId: id, version: one, missing: two }])
  })

  test('and whose newest backup somebody removed comes back as the restore before that backup left it', async () => {
    const { id, versions } = await loseFiles()
    const [one] = versions as [string, string]
    const store = await place.open({ log })
    await store.backups.restore(id, { version: one })
    const { version: three } = await store.backups.snapshot(id)
    await store.close()
    fs.rmSync(place.paths.cell(id).directory, { recursive: true })
    fs.rmSync(path.join(place.objects, three))
    const again = await place.open({ log })
    await again.openCell(id).ensureLocal()
    expect(notes(again.openCell(id))).toEqual(['one'])
    expect(log.errors).toMatchObject([{ cellId: id, version: one, missing: three }])
  })

  test('and whose last restore was to a version that somebody removed is set back with an error that names it', async () => {
    const { id, versions } = await loseFiles()
    const [one, two] = versions as [string, string]
    const store = await place.open()
    for (const version of [one, two]) await store.backups.restore(id, { version: version as string })
    await store.close()
    fs.rmSync(place.paths.cell(id).directory, { recursive: true })
    fs.rmSync(path.join(place.objects, two))
    const again = await place.open({ log })
    await again.openCell(id).ensureLocal()
    expect(notes(again.openCell(id))).toEqual(['one'])
    expect(log.errors).toMatchObject([{ cellId: id, version: one, missing: two }])
  })

  test('with the whole machine comes back with a line that says from which version, and without a warning', async () => {
    const { id, versions } = await loseFiles()
    fs.rmSync(place.data, { recursive: true })
    const store = await place.open({ log })
    const warnings = log.warnings.length
    await store.openCell(id).ensureLocal()
    expect(notes(store.openCell(id))).toEqual(['one', 'two'])
    expect(log.infos).toContainEqual({ cellId: id, version: versions[1] })
    expect(log.warnings).toHaveLength(warnings)
  })

  test('comes back as it was without an error, also where a restore was the last thing that happened to it', async () => {
    const { id, versions } = await loseFiles()
    const store = await place.open({ log })
    await store.openCell(id).ensureLocal()
    expect(notes(store.openCell(id))).toEqual(['one', 'two'])
    // The newest again after an older one: the last name is that of a mark, which is no version.
    for (const version of [versions[0], versions[1]])
      await store.backups.restore(id, { version: version as string })
    await store.close()
    fs.rmSync(place.paths.cell(id).directory, { recursive: true })
    const again = await place.open({ log })
    await again.openCell(id).ensureLocal()
    expect(notes(again.openCell(id))).toEqual(['one', 'two'])
    expect(log.errors).toEqual([])
    expect(log.warnings).toHaveLength(2)
  })
})
