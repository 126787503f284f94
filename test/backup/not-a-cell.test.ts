import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { Manifest } from '../../src/backup/archive/manifest.ts'
import { databaseImage } from '../../src/engine/sqlite.ts'
import { archiveOf, memberOf, membersIn } from '../support/backup/archives.ts'
import { ForeignProgram } from '../support/backup/foreign-program.ts'
import { ScratchPlace } from '../support/backup/scratch-store.ts'
import { rejectedBy } from '../support/thrown.ts'

test.each(['snapshot', 'incremental'] as const)(
  'no %s is taken of a database that is no cell any more',
  async (kind) => {
    const place = new ScratchPlace()
    place.directory.isDamaged = true
    const store = await place.create()
    const cell = store.createCell()
    cell.kv.put('k', 'v')
    const first = await store.backups.snapshot(cell.id)
    cell.kv.put('k', 'w')
    const program = await ForeignProgram.open(place.paths.cell(cell.id).database)
    await program.exec('DROP TABLE _cell_meta')
    await program.close()
    expect(await rejectedBy(store.backups[kind](cell.id))).toMatchObject({
      code: 'cell_quarantined',
      message: "The cell's file is a SQLite database, but not a cell.",
    })
    const { backups } = await store.backups.list(cell.id)
    expect(backups.map(({ version }) => version)).toEqual([first.version])
  },
)

test('a stored database that is no cell is not installed, and not proven', async () => {
  const place = new ScratchPlace()
  const store = await place.create()
  const cell = store.createCell()
  cell.kv.put('k', 'v')
  const { version } = await store.backups.snapshot(cell.id)
  const object = path.join(place.objects, version)
  const members = await membersIn(fs.readFileSync(object))
  const manifest = JSON.parse(String(members.get('manifest.json'))) as Manifest
  const image = databaseImage('CREATE TABLE notes (text)')
  const database = { name: 'cell.db', size: image.length } as const
  const other = await archiveOf([memberOf('cell.db', image)], { ...manifest, database })
  fs.rmSync(object)
  fs.writeFileSync(object, other)
  expect(await rejectedBy(store.backups.verify(cell.id, { version }))).toMatchObject({
    code: 'backup_corrupt',
  })
  expect(await rejectedBy(store.backups.restore(cell.id, { version }))).toMatchObject({
    code: 'backup_corrupt',
    message: expect.stringContaining('not a cell'),
    details: { member: 'cell.db' },
  })
  expect(cell.kv.get('k')).toBe('v')
})
