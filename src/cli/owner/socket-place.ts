import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { StorePaths } from '../../base/files/store-paths.ts'
import { readOwner } from '../../catalog/directory-lock.ts'

/** The shortest limit on a Unix socket's path among the systems that Node.js runs on (macOS), without the final NUL. */
const PATH_BYTES_MAX = 103
/** The name of a folder that holds a socket outside the store's directory starts like this. */
const FOLDER_PREFIX = 'cellstore-socket-'
const SOCKET_NAME = 'admin.sock'

/** Where a node's socket lies: in the store's directory, or in a temporary folder if that path is too long for a socket. */
export interface SocketPlace {
  readonly path: string
  /** Removes the socket, if closing the server has not, and its temporary folder. */
  dispose(): void
}

/**
 * Finds a place. Only the directory's owner may call this.
 *
 * @param left where an earlier node listened that was killed: its socket is removed
 * @throws `Error` if even a temporary folder's path is too long
 */
export function takeSocketPlace(paths: StorePaths, left?: string, temporary = os.tmpdir()): SocketPlace {
  if (left !== undefined) removeLeft(left)
  if (fits(paths.socket)) {
    fs.rmSync(paths.socket, { force: true })
    return { path: paths.socket, dispose: () => fs.rmSync(paths.socket, { force: true }) }
  }
  // mkdtemp makes it with mode 0700, and never takes an existing folder.
  const folder = fs.mkdtempSync(path.join(temporary, FOLDER_PREFIX))
  const socket = path.join(folder, SOCKET_NAME)
  if (fits(socket)) {
    return { path: socket, dispose: () => fs.rmSync(folder, { recursive: true, force: true }) }
  }
  fs.rmdirSync(folder)
  throw new Error(`The path ${socket} is too long for a Unix socket.`)
}

/** Where the store's node listens, as `owner.json` says; the node itself may be gone. */
export function publishedSocket(paths: StorePaths): string | undefined {
  return readOwner(paths)?.socket ?? undefined
}

function removeLeft(socket: string): void {
  const folder = path.dirname(socket)
  // The path comes from a file, so only a folder that cellstore made may be removed.
  if (path.basename(socket) !== SOCKET_NAME || !path.basename(folder).startsWith(FOLDER_PREFIX)) return
  fs.rmSync(socket, { force: true })
  try {
    fs.rmdirSync(folder)
  } catch {
    // It is gone, or holds other files.
  }
}

function fits(socket: string): boolean {
  return Buffer.byteLength(socket) <= PATH_BYTES_MAX
}
