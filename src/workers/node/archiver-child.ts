import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { type ProcessIdentity, processIdentity } from '../../catalog/directory-lock.ts'
import type { FromArchiver, ToArchiver } from '../protocol/archiver-protocol.ts'
import { encodeMessage, MessageReader } from '../protocol/messages.ts'
import { ANSWERS_FD, REQUESTS_FD } from '../protocol/protocol.ts'
import { spawnArchiver } from './spawn-child.ts'

/** One archiver process, and the messages to and from it. */
export class ArchiverChild {
  /** Resolves once the process has ended. */
  readonly ended: Promise<void>
  readonly identity: ProcessIdentity
  readonly #child: ChildProcess
  readonly #requests: Writable

  /**
   * @param objectStore the URL that it stores backups at
   * @throws the system's error if it can't start another process
   */
  constructor(objectStore: string, take: (message: FromArchiver) => void) {
    const child = spawnArchiver(objectStore)
    this.#child = child
    this.#requests = child.stdio[REQUESTS_FD] as Writable
    // If a write fails, the process has ended.
    this.#requests.on('error', () => {})
    this.identity = processIdentity(child.pid as number)
    const reader = new MessageReader((message) => take(message as FromArchiver))
    ;(child.stdio[ANSWERS_FD] as Readable).on('data', (chunk) => reader.push(chunk))
    this.ended = once(child, 'close').then(
      () => {},
      () => {},
    )
  }

  send(message: ToArchiver): void {
    this.#requests.write(encodeMessage(message))
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}
