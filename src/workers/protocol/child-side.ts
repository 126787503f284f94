import fs from 'node:fs'
import net from 'node:net'
import type { Log } from '../../base/log.ts'
import { isRunning } from '../../base/machine/machine.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import { MessageReader } from './messages.ts'
import { ANSWERS_FD, REQUESTS_FD } from './protocol.ts'

/** What the node's child processes, workers and archiver, have in common. None of them outlives its node. */

/** Ends the process at once: an orderly exit could still run queued work. */
export function die(): void {
  process.kill(process.pid, 'SIGKILL')
}

/**
 * Ends the process if its node has ended. Call it with the lock for workers held: the next owner of the store waits for that lock, and
 * if it came before the lock, the node had ended.
 */
export function dieWithout(node: ProcessIdentity): void {
  const { pid, startTime } = node
  // Where the system does not tell, no other process has started this one.
  if (!(isRunning(pid, startTime) ?? process.ppid === pid)) die()
}

/** Blocks until the pipe has the bytes. If the node has ended, the process ends at once. */
export function writeToNode(bytes: Buffer): void {
  try {
    for (let at = 0; at < bytes.length; ) at += fs.writeSync(ANSWERS_FD, bytes, at)
  } catch {
    // Without a node to report to, nothing may be committed (invariant 2).
    die()
  }
}

/** Calls `take` for each message of the node. Call it once. */
export function listenToNode(take: (message: unknown, parts: Buffer[]) => void, log: Log): void {
  // The node stops its children in order. A signal to the whole process group must not end them before that.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
  const reader = new MessageReader(take)
  const requests = new net.Socket({ fd: REQUESTS_FD, readable: true, writable: false })
  requests.on('data', (chunk) => reader.push(chunk))
  // The node ended without a stop message: no answer could arrive, and committed work is on disk.
  for (const event of ['end', 'error', 'close']) requests.on(event, die)
  // A bug: this process's memory may be wrong. The node starts another process.
  process.on('uncaughtException', (err) => {
    log.error({ err }, 'unexpected error in a child process; it ends and is replaced')
    die()
  })
}
