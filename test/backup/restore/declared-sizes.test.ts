import fs from 'node:fs'
import zlib from 'node:zlib'
import { pack } from 'tar-stream'
import { beforeEach, describe, expect, test } from 'vitest'
import { readArchive } from '../../../src/backup/archive/archive-reader.ts'
import type { Manifest } from '../../../src/backup/archive/manifest.ts'
import {
  bufferBody,
  type GetOptions,
  type ObjectContent,
} from '../../../src/backup/object-store/object-store.ts'
import { versionOf } from '../../../src/backup/versions/object-keys.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { archiveOf, manifestOf, memberOf, receive } from '../../support/backup/archives.ts'
import { PassingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const MIB = 1_048_576
const LIMITS = { cellBytesMax: 4 * MIB, walBytesMax: MIB }

/** Notes the largest size that a file has while an object is read, in small pieces. */
class WatchingStore extends PassingStore {
  watched = ''
  largest = 0

  override async get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    const content = await super.get(key, options)
    return content && { ...content, body: this.#pieces(content.body) }
  }

  async *#pieces(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of body) {
      for (let at = 0; at < chunk.length; at += 256) {
        yield chunk.subarray(at, at + 256)
        this.largest = Math.max(this.largest, this.#size())
      }
    }
    this.largest = Math.max(this.largest, this.#size())
  }

  #size(): number {
    return fs.statSync(this.watched, { throwIfNoEntry: false })?.size ?? 0
  }
}

const place = ScratchPlace.perTest()
let objects: WatchingStore
let store: CellStore
let cell: Cell

beforeEach(async () => {
  objects = new WatchingStore(place.folder())
  store = await place.create({ objectStore: objects, limits: LIMITS })
  cell = createLedger(store)
  addRow(cell, 'live')
  objects.watched = place.paths.cell(cell.id).restoreTarget
})

/** Stores an archive of somebody who knows the format and the ids, but no secret. */
async function forge(content: Partial<Manifest>, members: Parameters<typeof archiveOf>[0]): Promise<string> {
  const version = versionOf(cell.id, place.clock.now() + 1_000)
  const ids = { store_id: store.id, cell_id: cell.id, version }
  const archive = await archiveOf(members, manifestOf({ ...ids, ...content }))
  expect(archive.length).toBeLessThan(200_000)
  await objects.inner.put(version, bufferBody(archive))
  return version
}

describe('A small object that unpacks to far more than a cell may have', () => {
  test('as a database is refused before a byte is written', async () => {
    const zeros = Buffer.alloc(64 * MIB)
    const version = await forge({ database: { name: 'cell.db', size: zeros.length } }, [
      memberOf('cell.db', zeros),
    ])
    const error = await rejectedBy(store.backups.restore(cell.id, { version }))
    expect(objects.largest).toBe(0)
    expect(error).toMatchObject({ code: 'cell_full', details: { limit: LIMITS.cellBytesMax } })
    expect(error.message).toMatch(/67108864.*cellBytesMax/)
    expect(notes(cell)).toEqual(['live'])
  })

  test('as logs is refused before a byte is written', async () => {
    const zeros = Buffer.alloc(4 * MIB)
    const logs = Array.from({ length: 6 }, (_, i) => `wal-00000${i + 1}`)
    const log = { size: zeros.length, frames: 1, page_size: 4_096, salts: '0123456789abcdef' }
    const version = await forge(
      { database: { name: 'cell.db', size: 4_096 }, wals: logs.map((name) => ({ name, ...log })) },
      [memberOf('cell.db', zeros.subarray(0, 4_096)), ...logs.map((name) => memberOf(name, zeros))],
    )
    const error = await rejectedBy(store.backups.restore(cell.id, { version }))
    expect(objects.largest).toBe(0)
    expect(error.code).toBe('cell_full')
  })

  test('beyond what its manifest declares is refused as the bytes come, without keeping them', async () => {
    const bomb = await endlessName()
    let taken = 0
    const counted = (async function* () {
      for (const block of bomb) {
        taken++
        yield block
      }
    })()
    const reading = readArchive(counted, { manifest: () => {}, member: (_, __, bytes) => receive(bytes) })
    expect(await rejectedBy(reading)).toMatchObject({ code: 'backup_corrupt' })
    expect(taken).toBeLessThan(15)
  })
})

test('A cell as full as its limits let it become is restored', async () => {
  for (let i = 0; i < 200; i++) {
    try {
      addRow(cell, 'full', 60_000)
    } catch {
      break
    }
  }
  const { version } = await store.backups.snapshot(cell.id)
  addRow(cell, 'after', 10)
  await store.backups.restore(cell.id, { version })
  expect(notes(cell).length).toBeGreaterThan(40)
})

/** A manifest, then a tar entry whose name alone has 400 MiB: in blocks of 4 MiB that take a few hundred bytes each. */
async function endlessName(): Promise<Buffer[]> {
  const manifest = Buffer.from(JSON.stringify(manifestOf()))
  const tar = pack()
  tar.entry({ name: 'manifest.json' }, manifest)
  tar.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of tar as AsyncIterable<Buffer>) chunks.push(chunk)
  const plain = Buffer.concat(chunks).subarray(0, 512 + Math.ceil(manifest.length / 512) * 512)
  const zeros = zlib.zstdCompressSync(Buffer.alloc(4 * MIB))
  return [
    zlib.zstdCompressSync(Buffer.concat([plain, longNameHeader(400 * MIB)])),
    ...Array.from({ length: 100 }, () => zeros),
  ]
}

function longNameHeader(size: number): Buffer {
  const header = Buffer.alloc(512)
  header.write('././@LongLink', 0)
  header.write('0000644\0', 100)
  header.write('0000000\0', 108)
  header.write('0000000\0', 116)
  header.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  header.write('00000000000\0', 136)
  header.write('        ', 148)
  header.write('L', 156)
  header.write('ustar\0', 257)
  header.write('00', 263)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}
