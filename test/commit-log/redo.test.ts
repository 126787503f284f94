import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { newCellId } from '../../src/base/files/store-paths.ts'
import { encodeBatch, encodeFileHead, HEAD_BYTES, type LogRecord } from '../../src/commit-log/log-format.ts'
import { redo, removeLogs, supersede } from '../../src/commit-log/redo.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const [CELL, OTHER] = [newCellId(), newCellId()]
const WHOLE = { damaged: new Map(), unreadable: new Map(), isNameLost: false }
const SALTS = Buffer.from('newsalts')

/** A store with a WAL of 1,000 bytes, and a way to write logs. */
function openStore() {
  const root = tempDirectory()
  const directory = path.join(root, 'commit-log')
  fs.mkdirSync(directory)
  const wal = (id: string) => path.join(root, `${id}-wal`)
  const content = Buffer.alloc(1_000, 'w')
  SALTS.copy(content, 16)
  fs.writeFileSync(wal(CELL), content)
  const write = (name: string, records: readonly LogRecord[]) => {
    const generation = Buffer.from('generati')
    const batches = records.map((record, i) =>
      encodeBatch([record], { generation, sequence: i + 1, time: 0 }),
    )
    const file = path.join(directory, name)
    fs.writeFileSync(file, Buffer.concat([encodeFileHead(generation, HEAD_BYTES), ...batches]))
    return file
  }
  return { directory, wal, content, write, read: () => fs.readFileSync(wal(CELL)) }
}

const neverFailed = () => false

const record = (offset: number, fill: string, salts = SALTS, cellId = CELL): LogRecord => ({
  cellId,
  salts,
  offset,
  bytes: Buffer.alloc(100, fill),
})

describe('redo', () => {
  test('writes records at their places, beyond the end too, as often as it runs', async () => {
    const store = openStore()
    store.write('1-1.1.log', [record(900, 'a'), record(1_000, 'b')])
    for (let i = 0; i < 2; i++) {
      expect(await redo(store)).toEqual({ ...WHOLE, redone: new Set([CELL]) })
      expect(store.read()).toEqual(
        Buffer.concat([store.content.subarray(0, 900), Buffer.alloc(100, 'a'), Buffer.alloc(100, 'b')]),
      )
    }
    removeLogs(store.directory)
    expect(fs.readdirSync(store.directory)).toEqual([])
  })

  test('leaves a WAL of other salts as it is, and makes none: what a dead worker has logged never goes over newer commits', async () => {
    const store = openStore()
    const older = Buffer.from('oldsalts')
    store.write('1-1.1.log', [record(500, 'a', older), record(500, 'a', SALTS, OTHER)])
    await redo(store)
    expect(store.read()).toEqual(store.content)
    expect(fs.existsSync(store.wal(OTHER))).toBe(false)
  })

  test('names the cells of damaged records that belong to their WALs, with the length that those must have', async () => {
    const store = openStore()
    const damaged = [record(500, 'a'), record(300, 'b', Buffer.from('oldsalts')), record(900, 'c')]
    const file = store.write('1-1.1.log', damaged)
    const bytes = fs.readFileSync(file)
    for (const letter of ['a', 'b']) bytes[bytes.indexOf(letter.repeat(50)) + 10] = 0
    fs.writeFileSync(file, bytes)
    expect(await redo(store)).toEqual({ ...WHOLE, redone: new Set([CELL]), damaged: new Map([[CELL, 600]]) })
    expect(store.read().subarray(900)).toEqual(Buffer.alloc(100, 'c'))
  })
})

describe('the log of a process that was killed', () => {
  test('goes without a write to any WAL, also of cells that are gone, and no other log goes', async () => {
    const store = openStore()
    store.write('1-1.1.log', [record(500, 'a'), record(500, 'a', SALTS, OTHER)])
    store.write('1-12.1.log', [record(500, 'b')])
    expect(await supersede(store, '1-1', neverFailed)).toBe(true)
    expect(store.read()).toEqual(store.content)
    expect(fs.readdirSync(store.directory)).toEqual(['1-12.1.log'])
  })

  test('stays for the next start if the disk has failed under a cell that it names: an fsync that succeeds proves nothing then', async () => {
    const store = openStore()
    const file = store.write('1-1.1.log', [record(500, 'a')])
    await expect(supersede(store, '1-1', (id) => id === CELL)).rejects.toThrow(CELL)
    expect(fs.existsSync(file)).toBe(true)
  })

  test('stays for the next start if it is damaged where it names its cells', async () => {
    const store = openStore()
    const file = store.write('1-1.1.log', [record(500, 'a'), record(600, 'b')])
    const bytes = fs.readFileSync(file)
    // Not a fixed value: now and then it would be the one that is there.
    bytes.writeUInt8(bytes.readUInt8(HEAD_BYTES + 50) ^ 0xff, HEAD_BYTES + 50)
    fs.writeFileSync(file, bytes)
    expect(await supersede(store, '1-1', neverFailed)).toBe(false)
    expect(fs.existsSync(file)).toBe(true)
  })
})
