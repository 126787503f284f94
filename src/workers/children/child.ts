import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { type ProcessIdentity, processIdentity } from '../../catalog/directory-lock.ts'
import { ANSWERS_FD, REQUESTS_FD } from '../protocol/protocol.ts'

/** A process with a pipe for messages in each direction, whoever started it. */
export interface Child {
  readonly identity: ProcessIdentity
  /** Messages to it. */
  readonly requests: Writable
  /** Messages from it. */
  readonly answers: Readable
  /** True once the process has exited. Its last messages may still come, until {@link ended} resolves. */
  readonly hasExited: boolean
  /** The signal that ended it, if one did and that is known. */
  readonly signal: NodeJS.Signals | null
  /** Resolves once the process has ended, and all of its messages have come. */
  readonly ended: Promise<void>
  kill(): void
}

/** A child of this very process. @param process see spawn-child.ts */
export function ownChild(process: ChildProcess): Child {
  return {
    identity: processIdentity(process.pid as number),
    requests: process.stdio[REQUESTS_FD] as Writable,
    answers: process.stdio[ANSWERS_FD] as Readable,
    get hasExited() {
      return process.exitCode !== null || process.signalCode !== null
    },
    get signal() {
      return process.signalCode
    },
    ended: once(process, 'close').then(
      () => {},
      () => {},
    ),
    kill: () => void process.kill('SIGKILL'),
  }
}
