import fs from 'node:fs'
import path from 'node:path'
import { fsyncDirectory, fsyncDirectoryAside } from './durable-files.ts'

/** What the disk is given back at a time. */
export const GIVEN_BACK_BYTES = 8 * 1_048_576

/**
 * Whether a file is so long that the fsyncs of others would wait if its bytes were given back at once: a file system that tells the
 * disk which blocks are free (`discard`) has it busy with 350 MB for 60 ms, measured on ext4.
 */
export function isLong(file: string): boolean {
  return (fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) > GIVEN_BACK_BYTES
}

/**
 * Does something that takes a file's name away, and gives the bytes of a long one back in pieces. One that has another name, or that was
 * left its own, is not touched.
 *
 * @throws what `remove` throws
 */
export function givingBack<T>(file: string, remove: () => T): T {
  // Its descriptor keeps the bytes while nobody can find them any more.
  const fd = openedIfLong(file)
  if (fd === undefined) return remove()
  try {
    const result = remove()
    giveBack(fd, path.dirname(file))
    return result
  } finally {
    fs.closeSync(fd)
  }
}

/** Removes a file, if it is there: see {@link givingBack}. */
export function removeLong(file: string): void {
  givingBack(file, () => fs.rmSync(file, { force: true }))
}

/** Removes a file or a folder, if it is there, in the thread pool: see {@link givingBack}. */
export async function removeLongAside(entry: string): Promise<void> {
  const long: fs.promises.FileHandle[] = []
  try {
    for (const file of longFilesIn(entry)) {
      const handle = await fs.promises.open(file, 'r+').catch(() => undefined)
      if (handle !== undefined) long.push(handle)
    }
    await fs.promises.rm(entry, { recursive: true, force: true })
    for (const file of long) await giveBackAside(file, path.dirname(entry))
  } finally {
    await Promise.all(long.map((file) => file.close()))
  }
}

/** In a folder, or the file itself; none if it is gone, or can't be read. */
function longFilesIn(entry: string): string[] {
  try {
    const isFolder = fs.statSync(entry).isDirectory()
    const names = isFolder ? fs.readdirSync(entry, { recursive: true, encoding: 'utf8' }) : ['']
    return names.map((name) => path.join(entry, name)).filter(isLong)
  } catch {
    return []
  }
}

function openedIfLong(file: string): number | undefined {
  try {
    return isLong(file) ? fs.openSync(file, 'r+') : undefined
  } catch {
    // The file is gone, or this process may not write to it, or the disk fails: its bytes are given back at once.
    return undefined
  }
}

function giveBack(fd: number, folder: string): void {
  try {
    // A power loss must not bring back a part of it: SQLite would take that for a log.
    fsyncDirectory(folder)
    for (const length of lengths(fs.fstatSync(fd))) {
      fs.ftruncateSync(fd, length)
    }
  } catch {
    // What is left is given back as the file is closed.
  }
}

async function giveBackAside(file: fs.promises.FileHandle, folder: string): Promise<void> {
  try {
    await fsyncDirectoryAside(folder)
    for (const length of lengths(await file.stat())) await file.truncate(length)
  } catch {
    // As above.
  }
}

/** To which a file without a name is cut, one after the other. */
function* lengths({ size, nlink }: fs.Stats): Generator<number> {
  if (nlink > 0) return
  for (let length = size - GIVEN_BACK_BYTES; length > 0; length -= GIVEN_BACK_BYTES) yield length
}
