import fs from 'node:fs'
import path from 'node:path'
import { fsyncDirectory, fsyncDirectoryAside } from './durable-files.ts'

/**
 * What the disk is given back at a time; a shorter file is removed as it is. A file system that tells the disk which blocks are free
 * (`discard`) has it busy with 350 MB for 60 ms, measured on ext4, and the fsyncs of others wait for that.
 */
export const GIVEN_BACK_BYTES = 8 * 1_048_576

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

/** {@link removeLong} in the thread pool. */
export async function removeLongAside(file: string): Promise<void> {
  await using handle = await openedIfLongAside(file)
  await fs.promises.rm(file, { force: true })
  if (handle !== undefined) await giveBackAside(handle, path.dirname(file))
}

/** Undefined also if this process may not write to it, or the disk fails: its bytes are given back at once then. */
function openedIfLong(file: string): number | undefined {
  try {
    return fs.statSync(file).size > GIVEN_BACK_BYTES ? fs.openSync(file, 'r+') : undefined
  } catch {
    return undefined
  }
}

async function openedIfLongAside(file: string): Promise<fs.promises.FileHandle | undefined> {
  try {
    const { size } = await fs.promises.stat(file)
    return size > GIVEN_BACK_BYTES ? await fs.promises.open(file, 'r+') : undefined
  } catch {
    return undefined
  }
}

function giveBack(fd: number, folder: string): void {
  try {
    // A power loss must not bring back a part of it: a part of a log is a log.
    fsyncDirectory(folder)
    const { size, nlink } = fs.fstatSync(fd)
    if (nlink === 0) for (const length of cuts(size)) fs.ftruncateSync(fd, length)
  } catch {
    // What is left is given back as the file is closed.
  }
}

async function giveBackAside(file: fs.promises.FileHandle, folder: string): Promise<void> {
  try {
    await fsyncDirectoryAside(folder)
    const { size, nlink } = await file.stat()
    if (nlink === 0) for (const length of cuts(size)) await file.truncate(length)
  } catch {
    // As above.
  }
}

/** Lengths to which a file of that size is cut, one after the other: its last piece stays. */
export function* cuts(size: number): Generator<number> {
  for (let length = size - GIVEN_BACK_BYTES; length > 0; length -= GIVEN_BACK_BYTES) yield length
}
