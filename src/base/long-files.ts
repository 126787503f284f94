import fs from 'node:fs'
import path from 'node:path'
import { fsyncDirectory, fsyncDirectoryAside } from './durable-files.ts'

/** What the disk is given back at a time. */
export const GIVEN_BACK_BYTES = 8 * 1_048_576

/**
 * Whether a file is so long that the fsyncs of others would wait if its bytes were given back at once: a file system that tells the
 * disk which blocks are free (`discard`) has it busy with 350 MB for 60 ms, measured on ext4.
 */
function isLong(file: string): boolean {
  return (fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) > GIVEN_BACK_BYTES
}

/**
 * Removes a file, if it is there, and gives the bytes of a long one back in pieces. One that has another name keeps them. Only for files that
 * nobody reads any more: others may have a database open.
 */
export function removeLong(file: string): void {
  // Its descriptor keeps the bytes while nobody can find them any more.
  const fd = openedIfLong(file)
  try {
    fs.rmSync(file, { force: true })
    if (fd !== undefined) giveBack(fd, path.dirname(file))
  } finally {
    if (fd !== undefined) fs.closeSync(fd)
  }
}

/** As {@link removeLong}, of a file or a folder, in the thread pool. */
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
    // A power loss must not bring back a part of it: a part of a log is a log.
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
