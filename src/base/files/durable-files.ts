import fs from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { writeAllSync } from './write-all.ts'

/**
 * A long file is synced after each so many bytes. Its last fsync then has little left to write, and the fsyncs of cells wait for no more
 * than this on the way to the disk: with 32 MiB, beside snapshots one commit in a hundred took 30 ms in place of 12.
 */
export const SYNC_EVERY_BYTES = 4 * 1_048_576

const write = promisify(fs.write)
const fsync = promisify(fs.fsync)

/** Directories of a store are 0700 and files 0600: nobody but the owner's account reads tenants' data. */
export const DIRECTORY_MODE = 0o700
export const FILE_MODE = 0o600

/**
 * Whether a file exists. Unlike `existsSync` it throws if that can't be found out: a caller that takes a store's file for
 * lost makes another one in its place.
 *
 * @throws the file system's error
 */
export function exists(file: string): boolean {
  return fs.statSync(file, { throwIfNoEntry: false }) !== undefined
}

/** Makes a directory's entries durable: a new, renamed or removed file survives a power loss only after this. */
export function fsyncDirectory(directory: string): void {
  fsyncPath(directory, 'r')
}

function fsyncPath(path: string, flags: 'r' | 'r+'): void {
  const fd = fs.openSync(path, flags)
  try {
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** Directories that {@link makeDirectoryAside} is making, and that may not be durable yet. */
const making = new Map<string, Promise<void>>()

/**
 * Makes a directory and its missing parents, and makes each durable in its own parent.
 *
 * @returns the topmost directory that it made, or undefined if all existed
 */
export function makeDirectory(directory: string): string | undefined {
  const isMaking = making.has(directory)
  if (exists(directory) && !isMaking) return undefined
  const made = makeDirectory(path.dirname(directory))
  try {
    fs.mkdirSync(directory, { mode: DIRECTORY_MODE })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    if (!isMaking) return made
  }
  fsyncDirectory(path.dirname(directory))
  return made ?? directory
}

/** {@link makeDirectory} with its fsyncs in the thread pool. A directory that another call is making counts once it is durable. */
export async function makeDirectoryAside(directory: string): Promise<void> {
  const underWay = making.get(directory)
  if (underWay !== undefined) return underWay
  if (exists(directory)) return
  const made = makeDurably(directory).finally(() => making.delete(directory))
  making.set(directory, made)
  return made
}

async function makeDurably(directory: string): Promise<void> {
  const parent = path.dirname(directory)
  await makeDirectoryAside(parent)
  fs.mkdirSync(directory, { mode: DIRECTORY_MODE, recursive: true })
  await fsyncDirectoryAside(parent)
}

/**
 * Writes a new file and makes its bytes durable; its name is durable after {@link fsyncDirectory} of its folder. If the
 * write fails, the file is removed.
 */
export function writeNewFile(file: string, bytes: Uint8Array): void {
  const fd = fs.openSync(file, 'wx', FILE_MODE)
  try {
    writeAllSync(fd, bytes)
    fs.fsyncSync(fd)
  } catch (error) {
    fs.rmSync(file, { force: true })
    throw error
  } finally {
    fs.closeSync(fd)
  }
}

/**
 * {@link writeNewFile} in the thread pool. Where many files come and go, making one takes a millisecond, and more while the file system
 * writes its journal. Removing the file is the caller's.
 */
async function writeNewFileAside(file: string, bytes: Uint8Array): Promise<void> {
  const write = await makeFileAside(file)
  await write(bytes)
}

/**
 * The first half of {@link writeNewFileAside}: its folder has the file's name when this resolves, so that an fsync of it makes that durable.
 *
 * @returns writes the bytes, makes them durable, and closes the file; has to be called
 */
export async function makeFileAside(file: string): Promise<(bytes: Uint8Array) => Promise<void>> {
  const fd = await promisify(fs.open)(file, 'wx', FILE_MODE)
  return async (bytes) => {
    try {
      for (let at = 0; at < bytes.length; ) at += (await write(fd, bytes, at)).bytesWritten
      await fsync(fd)
    } finally {
      // What is synced costs nothing to close: not worth another round trip between threads.
      fs.closeSync(fd)
    }
  }
}

/** Replaces a small file atomically and durably, with its fsyncs in the thread pool. One call at a time for each file. */
export async function replaceFileDurably(file: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${file}.new`
  fs.rmSync(temporary, { force: true })
  try {
    await writeNewFileAside(temporary, bytes)
    fs.renameSync(temporary, file)
  } catch (error) {
    fs.rmSync(temporary, { force: true })
    throw error
  }
  await fsyncDirectoryAside(path.dirname(file))
}

/** {@link fsyncDirectory} in the thread pool. */
export async function fsyncDirectoryAside(directory: string): Promise<void> {
  const fd = fs.openSync(directory, 'r')
  try {
    await fsync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** Replaces a small file atomically, without an fsync: a power loss may lose it, but never leaves half of it. */
export function replaceFile(file: string, bytes: string): void {
  const temporary = `${file}.new`
  try {
    fs.writeFileSync(temporary, bytes, { mode: FILE_MODE })
    fs.renameSync(temporary, file)
  } catch (error) {
    fs.rmSync(temporary, { force: true })
    throw error
  }
}

/** Has a power loss not lose what {@link replaceFile} wrote. */
export function fsyncReplaced(file: string): void {
  fsyncPath(file, 'r+')
  fsyncDirectory(path.dirname(file))
}
