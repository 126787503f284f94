import { expect, test } from 'vitest'
import { Spool } from '../../src/store/cells/spool-files.ts'
import { codeOf } from '../support/thrown.ts'

const MIB = 1_048_576
const SPARE = 64 * MIB

/** A spool on a disk of which a test says what is free. */
function openSpool(bytes: number) {
  const disk = { free: bytes }
  const spool = new Spool('/spool', () => disk.free)
  /** Writes to a file that has room. */
  const write = (room: ReturnType<Spool['take']>, from: number, to: number) => {
    room.wrote(to)
    disk.free -= to - from
  }
  return { spool, disk, write }
}

test('files under way have together no more than the disk has', () => {
  const { spool } = openSpool(SPARE + 100 * MIB)
  const first = spool.take(60 * MIB)
  expect(codeOf(() => spool.take(60 * MIB))).toBe('disk_full')
  const second = spool.take(40 * MIB)
  first.release()
  second.release()
  spool.take(100 * MIB)
})

test('what is written counts once: on the disk', () => {
  const { spool, write } = openSpool(SPARE + 100 * MIB)
  const room = spool.take(60 * MIB)
  write(room, 0, 50 * MIB)
  const other = spool.take(40 * MIB)
  expect(codeOf(() => spool.take(MIB))).toBe('disk_full')
  other.release()
  room.release()
  room.release()
  // 50 MiB are on the disk.
  expect(codeOf(() => spool.take(51 * MIB))).toBe('disk_full')
  spool.take(50 * MIB)
})

test('files of unknown length take room while they grow, until the disk has no more', () => {
  const { spool, disk, write } = openSpool(SPARE + 10 * MIB)
  const [first, second] = [spool.take(0), spool.take(0)]
  write(first, 0, 1)
  write(second, 0, 5 * MIB)
  write(first, 1, 5 * MIB)
  expect(codeOf(() => first.wrote(5 * MIB + 1))).toBe('disk_full')
  expect(codeOf(() => second.wrote(5 * MIB + 1))).toBe('disk_full')
  expect(disk.free).toBe(SPARE)
})
