import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { decompressSeekable, decompressWhole } from '../../../src/backup/archive/zstd/seekable-zstd.ts'
import { RestoreThread } from '../../../src/backup/restore/threads/restore-thread.ts'
import { archiveOf, inChunks, manifestOf, memberOf } from '../../support/backup/archives.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const MIB = 1_048_576

const place = ScratchPlace.perTest()

/** The tasks of all restore threads. */
function threadTasks(): string[] {
  const kinds: string[] = []
  const { run } = RestoreThread.prototype
  vi.spyOn(RestoreThread.prototype, 'run').mockImplementation(function (this: RestoreThread, task) {
    kinds.push(task.kind)
    return run.call(this, task)
  })
  return kinds
}

async function streamed(archive: Buffer): Promise<Buffer | undefined> {
  try {
    const blocks: Buffer[] = []
    for await (const block of decompressSeekable(inChunks(archive, 100_000))) blocks.push(block)
    return Buffer.concat(blocks)
  } catch (error) {
    expect(error).toMatchObject({ code: 'backup_corrupt' })
    return undefined
  }
}

function whole(archive: Buffer): Buffer | undefined {
  try {
    return Buffer.concat([...decompressWhole(archive)])
  } catch (error) {
    expect(error).toMatchObject({ code: 'backup_corrupt' })
    return undefined
  }
}

describe('An archive that is decompressed in one go (invariant 10)', () => {
  test('is what it is as a stream: whole, cut at any block or within it, flipped, or with bytes after its end', async () => {
    const database = Buffer.concat([randomBytes(MIB), Buffer.alloc(MIB), Buffer.from('the end')])
    const archive = await archiveOf(
      [memberOf('cell.db', database)],
      manifestOf({ database: { name: 'cell.db', size: database.length } }),
    )
    expect(whole(archive)?.includes(database)).toBe(true)
    const places = [
      0,
      1,
      4,
      5,
      9,
      300,
      900,
      5_000,
      MIB,
      archive.length - 200,
      archive.length - 20,
      archive.length - 1,
    ]
    const variants = [archive, Buffer.concat([archive, archive]), Buffer.concat([archive, Buffer.alloc(9)])]
    for (const at of places) {
      variants.push(archive.subarray(0, at))
      const flipped = Buffer.from(archive)
      flipped[at] = (flipped[at] as number) ^ 0x10
      variants.push(flipped)
    }
    for (const variant of variants) {
      const found = whole(variant)
      expect(found).toEqual(await streamed(variant))
      if (variant.length < archive.length) expect(found).toBeUndefined()
    }
  })
})

describe('A restore of an object of a few MiB', () => {
  test('leaves it to the thread: one task for its bytes', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'base', 5 * MIB)
    const { version } = await store.backups.snapshot(cell.id)
    addRow(cell, 'later')
    const tasks = threadTasks()
    await store.backups.restore(cell.id, { version })
    expect(tasks).toEqual(['unpack'])
    expect(notes(cell)).toEqual(['base'])
    expect(cell.sql('PRAGMA integrity_check').rows).toEqual([{ integrity_check: 'ok' }])
  })

  test('names what is wrong with it as any other restore does, and leaves nothing', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'base', 5 * MIB)
    const { version } = await store.backups.snapshot(cell.id)
    addRow(cell, 'kept')
    const object = path.join(place.objects, version)
    const bytes = fs.readFileSync(object)
    bytes[3 * MIB] = (bytes[3 * MIB] as number) ^ 1
    fs.writeFileSync(object, bytes)
    const tasks = threadTasks()
    const error = await rejectedBy(store.backups.restore(cell.id, { version }))
    expect(error).toMatchObject({ code: 'backup_corrupt', details: { version, member: 'archive' } })
    expect(tasks[0]).toBe('unpack')
    expect(notes(cell)).toEqual(['base', 'kept'])
  })
})
