import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Contender, Turn } from './turns.ts'

/** What such a process says: once what it is, then what each ask gave. */
type Answer = { version: string } | { turn: Turn } | { absent: string } | { failed: string }

/** A store in a process of its own. */
export class StoreProcess implements Contender {
  readonly name: string
  version = ''
  readonly #child: ChildProcess

  constructor(name: string, program: string, args: readonly string[]) {
    this.name = name
    this.#child = fork(program, args)
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** @returns why it can't take part, if it can't */
  async ready(): Promise<string | undefined> {
    const answer = await this.#answer()
    if (!('version' in answer)) return 'failed' in answer ? answer.failed : 'it did not say what it is'
    this.version = answer.version
    return undefined
  }

  /** @returns undefined if the store has no such operation */
  async turn(ask: object): Promise<Turn | undefined> {
    this.#child.send(ask)
    const answer = await this.#answer()
    if ('failed' in answer) throw new Error(answer.failed)
    return 'turn' in answer ? answer.turn : undefined
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    if (this.#child.connected) this.#child.disconnect()
    await exited
  }

  async #answer(): Promise<Answer> {
    const settled = new AbortController()
    const { signal } = settled
    const ended = once(this.#child, 'exit', { signal }).then(
      ([code]) => ({ failed: `its process ended with ${code}` }),
      () => ({ failed: '' }),
    )
    const answered = once(this.#child, 'message', { signal }).then(
      ([message]) => message as Answer,
      () => ({ failed: '' }),
    )
    try {
      return await Promise.race([answered, ended])
    } finally {
      settled.abort()
    }
  }
}
