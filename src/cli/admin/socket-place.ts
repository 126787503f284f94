import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { StorePaths } from '../../base/store-paths.ts'
import { readOwner } from '../../catalog/directory-lock.ts'

/** The shortest bound on a Unix socket's path among the systems that Node runs on (macOS), without the final NUL. */
const PATH_BYTES_MAX = 103
/** What the folder is called that holds a socket outside the store's directory. */
const FOLDER_PREFIX = 'cellstore-socket-'
const SOCKET_NAME = 'admin.sock'

/** Where a node's socket lies: in the store's directory, or where that path is too long for a socket, in a temporary one. */
export class SocketPlace {
  readonly path: string
  /** The temporary folder, which goes with the socket. */
  readonly #folder: string | undefined

  private constructor(socket: string, folder?: string) {
    this.path = socket
    this.#folder = folder
  }

  /**
   * Finds a place. Call as the directory's owner only.
   *
   * @param left where the node before this one listened, if it did not get to end: what it left is removed
   * @throws `Error` where even a temporary folder's path is too long
   */
  static take(paths: StorePaths, left?: string, temporary = os.tmpdir()): SocketPlace {
    if (left !== undefined) removeLeft(left)
    if (fits(paths.socket)) {
      fs.rmSync(paths.socket, { force: true })
      return new SocketPlace(paths.socket)
    }
    // mkdtemp makes it with mode 0700, and never takes one that is there.
    const folder = fs.mkdtempSync(path.join(temporary, FOLDER_PREFIX))
    const socket = path.join(folder, SOCKET_NAME)
    if (fits(socket)) return new SocketPlace(socket, folder)
    fs.rmdirSync(folder)
    throw new Error(`The path ${socket} is longer than a Unix socket takes.`)
  }

  /** Removes the socket; closing the server usually has. */
  dispose(): void {
    fs.rmSync(this.path, { force: true })
    if (this.#folder !== undefined) fs.rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Where the store's node listens, going by what it left behind; the node itself may be gone. */
export function publishedSocket(paths: StorePaths): string | undefined {
  return readOwner(paths)?.socket ?? undefined
}

function removeLeft(socket: string): void {
  const folder = path.dirname(socket)
  // The path comes from a file: nothing but a folder of ours is removed.
  if (path.basename(socket) !== SOCKET_NAME || !path.basename(folder).startsWith(FOLDER_PREFIX)) return
  fs.rmSync(socket, { force: true })
  try {
    fs.rmdirSync(folder)
  } catch {
    // It is gone, or is more than ours.
  }
}

function fits(socket: string): boolean {
  return Buffer.byteLength(socket) <= PATH_BYTES_MAX
}
