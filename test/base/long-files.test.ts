import fs from 'node:fs'
import path from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { GIVEN_BACK_BYTES, removeLong, removeLongAside } from '../../src/base/long-files.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const LONG_BYTES = 2.5 * GIVEN_BACK_BYTES

afterEach(() => {
  vi.restoreAllMocks()
})

function fileOf(bytes: number, name = 'file'): string {
  const file = path.join(tempDirectory(), name)
  fs.writeFileSync(file, '')
  fs.truncateSync(file, bytes)
  return file
}

/** To which files are cut meanwhile, one after the other. */
function cutsSeen() {
  return vi.spyOn(fs, 'ftruncateSync')
}

test('a long file that is removed loses its bytes in pieces, once nobody can find it', () => {
  const file = fileOf(LONG_BYTES)
  const cuts = cutsSeen().mockImplementation(() => expect(fs.existsSync(file)).toBe(false))
  removeLong(file)
  expect(cuts.mock.calls.map(([, length]) => length)).toEqual([
    1.5 * GIVEN_BACK_BYTES,
    0.5 * GIVEN_BACK_BYTES,
  ])
})

test('a short or missing file is removed as it is', () => {
  const file = fileOf(GIVEN_BACK_BYTES)
  const cuts = cutsSeen()
  removeLong(file)
  removeLong(file)
  expect(fs.existsSync(file)).toBe(false)
  expect(cuts).not.toHaveBeenCalled()
})

test('a file that has another name keeps its bytes', async () => {
  const file = fileOf(LONG_BYTES)
  const other = `${file}-other`
  fs.linkSync(file, other)
  removeLong(file)
  expect(fs.statSync(other).size).toBe(LONG_BYTES)
  fs.linkSync(other, file)
  await removeLongAside(other)
  expect(fs.statSync(file).size).toBe(LONG_BYTES)
})

test('a folder goes with all that it has, long or short; a missing one is no error', async () => {
  const folder = tempDirectory()
  fs.mkdirSync(path.join(folder, 'inner'))
  for (const [name, bytes] of [
    ['inner/long', LONG_BYTES],
    ['inner/short', 1],
    ['long', LONG_BYTES],
  ] as const) {
    fs.writeFileSync(path.join(folder, name), '')
    fs.truncateSync(path.join(folder, name), bytes)
  }
  await removeLongAside(folder)
  expect(fs.existsSync(folder)).toBe(false)
  await removeLongAside(folder)
})
