import { CellError } from '../../errors.ts'

/**
 * True from Node 22.15, and from 23.8 in the 23 line: those have zstd in `node:zlib`. On older ones better-sqlite3 13 crashes
 * the process without a message as soon as it opens a database, so call this before its addon is loaded.
 *
 * This module must load on any Node that knows ESM: the command asks it first.
 */
export function isSupportedNode(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major === 22) return minor >= 15
  if (major === 23) return minor >= 8
  return major > 23
}

/** @throws `unsupported_runtime` on a Node that cannot open a cell. */
export function assertSupportedRuntime(version: string = process.versions.node): void {
  if (isSupportedNode(version)) return
  throw new CellError(
    'unsupported_runtime',
    `cellstore needs Node.js 22.15 or newer, and this is ${version}. Install a newer Node.js and run it with that.`,
  )
}
