import { chmod, link, lstat, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { FILE_MODE } from '../../../base/files/durable-files.ts'
import { CellError } from '../../../errors.ts'
import { type CallDeadline, readPieces } from '../call-deadline.ts'
import { type ObjectBody, objectExists, type TransferOptions } from '../object-store.ts'
import { errnoOf, ifThere, makeFolder, pruneFolders, syncFolder } from './folder-tree.ts'

/** Bytes copied at a time. */
const COPY_BYTES = 1024 * 1024
/** How often a call makes a folder again that another call has just pruned. */
const LINK_TRIES = 5
/** Errors of link(2) from file systems without hard links, or that refuse this one. */
const NO_LINK = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV', 'EMLINK', 'EACCES'])

export interface NewFile {
  /** The folder that holds the target at some depth. It is never pruned. */
  root: string
  target: string
  /** The folder that holds the next two at some depth, on the target's file system. It is never pruned. */
  scratchRoot: string
  /** Where its bytes are written first. No other call has the same. */
  unfinished: string
  /** What all calls for this target have in common. */
  claim: string
}

/**
 * Makes a file that appears whole or not at all, and never replaces another file. When this resolves, the file is on disk.
 * After a rejection nothing of it is left.
 *
 * @throws `object_exists` if the target already exists.
 */
export async function createFile(
  file: NewFile,
  body: ObjectBody,
  call: CallDeadline,
  onProgress: TransferOptions['onProgress'],
): Promise<void> {
  await refuseExisting(file.target)
  if (body.path === undefined || !(await linkFinished(body.path, body.size, file))) {
    await copyAndInstall(file, body, call, onProgress)
  }
  try {
    await chmod(file.target, FILE_MODE)
    await syncFolder(dirname(file.target))
  } catch (error) {
    await rm(file.target, { force: true })
    throw error
  }
  onProgress?.(body.size)
}

/** Links a finished file into place. False if it cannot be linked, so that its bytes must be copied. */
async function linkFinished(source: string, size: number, file: NewFile): Promise<boolean> {
  const found = await lstat(source).catch(() => undefined)
  if (found?.isFile() !== true || found.size !== size) return false
  return linkInto(source, file)
}

async function copyAndInstall(
  file: NewFile,
  body: ObjectBody,
  call: CallDeadline,
  onProgress: TransferOptions['onProgress'],
): Promise<void> {
  const { unfinished } = file
  try {
    await copyInto(unfinished, body, call, onProgress)
    call.signal.throwIfAborted()
    if (!(await linkInto(unfinished, file))) await renameInto(file)
  } finally {
    // A file that cannot be removed now does not change the outcome. sweepUploads finds it.
    await rm(unfinished, { force: true }).catch(() => {})
    await pruneScratch(unfinished, file)
  }
}

async function pruneScratch(path: string, { scratchRoot }: NewFile): Promise<void> {
  if (dirname(path) !== scratchRoot) await pruneFolders(dirname(path), scratchRoot).catch(() => {})
}

async function copyInto(
  path: string,
  body: ObjectBody,
  call: CallDeadline,
  onProgress: TransferOptions['onProgress'],
): Promise<void> {
  const handle = await inFolder(path, () => open(path, 'wx', FILE_MODE))
  try {
    let copied = 0
    for await (const bytes of readPieces(body, COPY_BYTES, call)) {
      await handle.writeFile(bytes)
      copied += bytes.length
      if (copied < body.size) onProgress?.(copied)
    }
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Links `source` to the target and makes the target's folders. False if the file system cannot make the link. */
async function linkInto(source: string, { root, target }: NewFile): Promise<boolean> {
  try {
    await inFolder(target, () => link(source, target))
    return true
  } catch (error) {
    const errno = errnoOf(error)
    if (errno === 'EEXIST') throw await existsFailure(target)
    await pruneFolders(dirname(target), root).catch(() => {})
    if (errno !== undefined && NO_LINK.has(errno)) return false
    throw error
  }
}

/**
 * Renames the unfinished file to the target, on file systems without hard links. A rename would replace an object. So a
 * claim file keeps all other writers of the key out while this one looks and renames. A claim that a crash left behind
 * makes the key unavailable until `sweepUploads`: if a writer could take it over, two writers could have it.
 */
async function renameInto(file: NewFile): Promise<void> {
  const { root, target, unfinished, claim } = file
  try {
    await (await inFolder(claim, () => open(claim, 'wx', FILE_MODE))).close()
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
    throw new CellError('object_store_unavailable', 'Another writer is storing the same object.')
  }
  try {
    await refuseExisting(target)
    await inFolder(target, () => rename(unfinished, target))
  } catch (error) {
    await pruneFolders(dirname(target), root).catch(() => {})
    throw error
  } finally {
    await rm(claim)
    await pruneScratch(claim, file)
  }
}

/** Runs `use` after it has made the file's folder, also while other calls prune empty folders. */
async function inFolder<T>(file: string, use: () => Promise<T>): Promise<T> {
  for (let tries = LINK_TRIES; ; tries--) {
    await makeFolder(dirname(file))
    try {
      return await use()
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT' || tries === 0) throw error
    }
  }
}

async function refuseExisting(target: string): Promise<void> {
  if ((await ifThere(lstat(target))) !== undefined) throw await existsFailure(target)
}

async function existsFailure(target: string): Promise<CellError> {
  const found = await lstat(target).catch(() => undefined)
  if (found?.isDirectory() !== true) return objectExists()
  const message = 'A folder cannot hold this key: another key continues it with "/".'
  return new CellError('object_store_error', message)
}
