import { randomUUID } from 'node:crypto'
import { chmod, type FileHandle, link, lstat, open, rename, rm, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { FILE_MODE } from '../../../base/durable-files.ts'
import { CellError } from '../../../errors.ts'
import type { CallDeadline } from '../call-deadline.ts'
import type { ObjectBody, TransferOptions } from '../object-store.ts'
import { readPieces } from '../read-body.ts'
import { errnoOf, folderFailure } from './folder-failure.ts'
import { isAbsence, makeFolder, pruneFolders, syncFolder } from './folder-tree.ts'

/** Bytes copied at a time. */
const COPY_BYTES = 1024 * 1024
/** How often a folder that another call pruned just now is made again. */
const LINK_TRIES = 5
/** What file systems without hard links, and those that refuse this one, answer to link(2). */
const NO_LINK = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV', 'EMLINK', 'EACCES'])

export interface NewFile {
  /** The folder that the target is in, however deep; it is never pruned. */
  root: string
  target: string
  /** A folder for this key alone, below `scratchRoot` and on the same file system as the target. */
  scratch: string
  scratchRoot: string
}

/**
 * Makes a file that appears whole or not at all, never in another's place, and is on disk when this resolves. After a
 * rejection nothing of it is left.
 *
 * @throws `object_exists` if the target is there already.
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

/** Links a finished file into place. False where that can't be done, and the bytes have to be copied. */
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
  const temporary = join(file.scratch, randomUUID())
  try {
    await copyInto(temporary, body, call, onProgress)
    call.signal.throwIfAborted()
    if (!(await linkInto(temporary, file))) await renameInto(temporary, file)
  } finally {
    // What can't be removed now does not change the outcome; sweepUploads finds it.
    await rm(temporary, { force: true }).catch(() => {})
    await pruneFolders(file.scratch, file.scratchRoot).catch(() => {})
  }
}

async function copyInto(
  temporary: string,
  body: ObjectBody,
  call: CallDeadline,
  onProgress: TransferOptions['onProgress'],
): Promise<void> {
  const handle = await createInFolder(temporary)
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

/** Links `source` to the target, whose folders are made. False where the file system has no link for it. */
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
 * Renames the temporary file to the target where there are no hard links. A rename would replace an object, so a claim
 * file keeps every other writer of the key out while this one looks and renames. A claim that a crash left behind makes
 * the key unavailable until `sweepUploads`: taking it over could let two writers in.
 */
async function renameInto(temporary: string, { root, target, scratch }: NewFile): Promise<void> {
  const claim = join(scratch, 'claim')
  try {
    await (await open(claim, 'wx', FILE_MODE)).close()
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
    throw new CellError('object_store_unavailable', 'The same object is being stored by somebody else.')
  }
  try {
    await refuseExisting(target)
    await inFolder(target, () => rename(temporary, target))
  } catch (error) {
    await pruneFolders(dirname(target), root).catch(() => {})
    throw error
  } finally {
    await unlink(claim)
  }
}

async function createInFolder(file: string): Promise<FileHandle> {
  return inFolder(file, () => open(file, 'wx', FILE_MODE))
}

/** Runs `use` with the file's folder in place, also while other calls prune folders that have become empty. */
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
  const found = await lstat(target).catch((error: unknown) => {
    if (isAbsence(error)) return undefined
    throw folderFailure(error)
  })
  if (found !== undefined) throw await existsFailure(target)
}

async function existsFailure(target: string): Promise<CellError> {
  const found = await lstat(target).catch(() => undefined)
  if (found?.isDirectory() !== true)
    return new CellError('object_exists', 'There is an object of this key already.')
  const message = 'A folder can not hold an object whose key others continue with "/".'
  return new CellError('object_store_error', message)
}
