import { describe, expect, test } from 'vitest'
import {
  encodeBatch,
  encodeFileHead,
  HEAD_BYTES,
  type LogRecord,
  readLog,
} from '../../src/commit-log/log-format.ts'

const GENERATION = Buffer.from('generati')
const CELL = '00000000-0000-4000-8000-00000000000'

function record(n: number, length = 100): LogRecord {
  return { cellId: `${CELL}${n}`, salts: Buffer.alloc(8, n), offset: 32 + n, bytes: Buffer.alloc(length, n) }
}

/** A file with these batches, and room after them. @returns it, and where each batch begins */
function logOf(batches: readonly (readonly LogRecord[])[], generation = GENERATION) {
  const encoded = batches.map((records, i) => encodeBatch(records, { generation, sequence: i + 1, time: i }))
  const starts = encoded.map(
    (_, i) => HEAD_BYTES + encoded.slice(0, i).reduce((sum, { length }) => sum + length, 0),
  )
  const file = Buffer.concat([Buffer.alloc(HEAD_BYTES), ...encoded, Buffer.alloc(1_000)])
  encodeFileHead(generation, file.length).copy(file)
  return { file, starts }
}

const cellsOf = (entries: readonly { cellId: string }[]) => entries.map(({ cellId }) => Number(cellId.at(-1)))

function flip(file: Buffer, at: number): Buffer {
  const flipped = Buffer.from(file)
  flipped[at] = (flipped[at] as number) ^ 1
  return flipped
}

describe('a log file', () => {
  const { file, starts } = logOf([[record(1), record(2)], [record(3)], [record(4), record(5)]])
  const [, second = 0, third = 0] = starts

  test('gives back every record, in order', () => {
    const { records, damaged, isNameLost } = readLog(file)
    expect(cellsOf(records)).toEqual([1, 2, 3, 4, 5])
    expect(records[2]).toMatchObject({ ...record(3), length: 100 })
    expect([damaged, isNameLost]).toEqual([[], false])
  })

  test('ends before a batch that was torn at any byte: it was not acknowledged', () => {
    // The last seven bytes may be padding.
    for (let end = third; end < file.length - 1_000 - 7; end++) {
      const torn = Buffer.from(file)
      torn.fill(0, end)
      const { records, damaged, isNameLost } = readLog(torn)
      expect([cellsOf(records), damaged, isNameLost], `cut at ${end}`).toEqual([[1, 2, 3], [], false])
    }
  })

  test('ends before a batch of which any part is missing, if none follows', () => {
    for (let from = third; from < file.length - 1_064; from += 8) {
      const torn = Buffer.from(file)
      torn.fill(0, from, from + 64)
      expect(cellsOf(readLog(torn).records), `from ${from}`).toEqual([1, 2, 3])
    }
  })

  test('names the cell whose bytes are damaged in the middle, and gives back all others', () => {
    const { records, damaged, isNameLost } = readLog(flip(file, second - 20))
    expect([cellsOf(records), cellsOf(damaged), isNameLost]).toEqual([[1, 3, 4, 5], [2], false])
    expect(damaged[0]).toMatchObject({ offset: 34, length: 100, bytes: undefined })
  })

  test('says so if nobody knows whose records are damaged, whichever bit of a head in the middle flipped', () => {
    for (let at = second; at < second + 80; at++) {
      const { records, isNameLost } = readLog(flip(file, at))
      expect([cellsOf(records), isNameLost], `at ${at}`).toEqual([[1, 2, 4, 5], true])
    }
    for (let at = 0; at < 36; at++) expect(readLog(flip(file, at)).isNameLost, `at ${at}`).toBe(true)
  })

  test('without a head never had a batch', () => {
    for (const never of [Buffer.alloc(0), file.subarray(0, 511), Buffer.alloc(4_096)])
      expect(readLog(never)).toEqual({ records: [], damaged: [], isNameLost: false })
  })

  test('that is used again ends where batches of an earlier use follow', () => {
    const used = Buffer.from(file)
    const { file: newer } = logOf([[record(7)]], Buffer.from('anotherg'))
    newer.copy(used, 0, 0, newer.length - 1_000)
    expect(cellsOf(readLog(used).records)).toEqual([7])
    // And with the head of the next use alone, it is empty.
    encodeFileHead(Buffer.from('thirdgen'), 0).copy(used)
    expect(readLog(used)).toEqual({ records: [], damaged: [], isNameLost: false })
  })
})
