import { lowerPriority } from '../../base/lower-priority.ts'
import { releaseBytes } from '../../base/release-bytes.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import { encodeMessage, MessageReader, type Parts } from '../protocol/messages.ts'
import type { Child } from './child.ts'

/** After so many messages in one piece the event loop does everything else, before it reads more: each can settle requests. */
const MESSAGES_A_TURN = 8

/** The node's side of one child process, worker or archiver: the process, and the messages to and from it. */
export class ChildLink<Sent, Received> {
  readonly #child: Child

  constructor(child: Child, take: (message: Received, parts: Buffer[]) => void) {
    this.#child = child
    const { requests, answers } = child
    // If a write fails, the process has ended, and `ended` tells.
    requests.on('error', () => {})
    const reader = new MessageReader((message, parts) => take(message as Received, parts))
    answers.on('data', (chunk) => {
      if (reader.push(chunk) < MESSAGES_A_TURN) return
      answers.pause()
      setImmediate(() => answers.resume())
    })
  }

  get identity(): ProcessIdentity {
    return this.#child.identity
  }

  /** Resolves once the process has ended, and all of its messages have come. */
  get ended(): Promise<void> {
    return this.#child.ended
  }

  /** True once the process has exited. Its last messages may still come, until {@link ended} resolves. */
  get hasExited(): boolean {
    return this.#child.hasExited
  }

  /** The signal that ended it, if one did and that is known. */
  get signal(): NodeJS.Signals | null {
    return this.#child.signal
  }

  send(message: Sent, parts?: Parts, isJson?: boolean): void {
    const bytes = encodeMessage({ message, parts, isJson })
    this.#child.requests.write(bytes, () => releaseBytes(bytes))
  }

  /** Lowers its priority, so that it does not slow down the other processes. */
  yieldToOthers(): void {
    lowerPriority(this.identity.pid)
  }

  kill(): void {
    this.#child.kill()
  }
}
