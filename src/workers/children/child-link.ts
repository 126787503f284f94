import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { setImmediate } from '../../base/clock.ts'
import { lowerPriority } from '../../base/machine/lower-priority.ts'
import { releaseBytes } from '../../base/machine/release-bytes.ts'
import { type ProcessIdentity, processIdentity } from '../../catalog/directory-lock.ts'
import { encodeMessage, MessageReader, type Parts } from '../protocol/messages.ts'
import { ANSWERS_FD, REQUESTS_FD } from '../protocol/protocol.ts'

/** After so many messages in one piece the event loop does everything else, before it reads more: each can settle requests. */
const MESSAGES_A_TURN = 8

/** The node's side of one child process, worker, archiver or checker: the process, and the messages to and from it. */
export class ChildLink<Sent, Received> {
  readonly identity: ProcessIdentity
  /** Resolves once the process has ended, and all of its messages have come. */
  readonly ended: Promise<void>
  readonly #child: ChildProcess
  readonly #requests: Writable

  /** @param child see spawn-child.ts */
  constructor(child: ChildProcess, take: (message: Received, parts: Buffer[]) => void) {
    this.#child = child
    this.identity = processIdentity(child.pid as number)
    this.ended = once(child, 'close').then(
      () => {},
      () => {},
    )
    this.#requests = child.stdio[REQUESTS_FD] as Writable
    // If a write fails, the process has ended, and `ended` tells.
    this.#requests.on('error', () => {})
    const answers = child.stdio[ANSWERS_FD] as Readable
    const reader = new MessageReader((message, parts) => take(message as Received, parts))
    answers.on('data', (chunk) => {
      if (reader.push(chunk) < MESSAGES_A_TURN) return
      answers.pause()
      setImmediate(() => answers.resume())
    })
  }

  /** True once the process has exited. Its last messages may still come, until {@link ended} resolves. */
  get hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** The signal that ended it, if one did. */
  get signal(): NodeJS.Signals | null {
    return this.#child.signalCode
  }

  send(message: Sent, parts?: Parts, isJson?: boolean): void {
    const bytes = encodeMessage({ message, parts, isJson })
    this.#requests.write(bytes, () => releaseBytes(bytes))
  }

  /** Lowers its priority, so that it does not slow down the other processes. */
  yieldToOthers(): void {
    lowerPriority(this.identity.pid)
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}
