import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import { GIVEN_BACK_BYTES, removeLong, removeLongAside } from '../../src/base/long-files.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const LONG_BYTES = 2.5 * GIVEN_BACK_BYTES

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

test('in the thread pool it is the same: a long file goes in pieces, and a missing one is no error', async () => {
  const file = fileOf(LONG_BYTES)
  const handle = await fs.promises.open(file)
  const prototype: fs.promises.FileHandle = Object.getPrototypeOf(handle)
  const cuts = vi.spyOn(prototype, 'truncate')
  await removeLongAside(file)
  expect(cuts.mock.calls).toEqual([[1.5 * GIVEN_BACK_BYTES], [0.5 * GIVEN_BACK_BYTES]])
  expect(fs.existsSync(file)).toBe(false)
  await handle.close()
  await removeLongAside(file)
})
