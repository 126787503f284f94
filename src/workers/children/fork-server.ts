import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { type Clock, within } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { isRunning } from '../../base/machine.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import type { FromForkServer, ToForkServer, Wanted } from '../protocol/fork-server-protocol.ts'
import { type Child, ownChild } from './child.ts'
import { spawnForkServer, spawnWanted } from './spawn-child.ts'

/**
 * How often it is looked whether a start is over, and how many looks a start may take. Then the fork server is stuck: it is ended, and another one takes
 * its place. Two looks, because it may be the node that stood still.
 */
const LOOK_MS = 5_000
const LOOKS_MAX = 2
/** How often a start is tried if the fork server ends meanwhile. */
const TRIES = 3
/** Milliseconds that a process whose pipe has ended waits for the news how it ended. */
const EXIT_MS_MAX = 1_000

/**
 * The node's side of its fork server, which starts workers and checkers for it: see fork-server-main.ts. It runs from the first of
 * them on, and another one takes its place if it ends; what it has started goes on. Only Linux copies the memory of whoever starts a
 * process: elsewhere the node starts them itself.
 */
export class ForkServer {
  readonly #clock: Clock
  readonly #log: Log
  #process: ChildProcess | undefined
  /** By number, until they have exited. */
  readonly #children = new Map<number, ForkedChild>()
  #ids = 0
  #stopped = false

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** @throws the system's error if it can't start another process; an error if the fork server ends again and again, or is stopped */
  async start(wanted: Wanted): Promise<Child> {
    if (process.platform !== 'linux') return ownChild(spawnWanted(wanted))
    for (let tries = 1; ; tries++) {
      try {
        return await this.#start(wanted)
      } catch (error) {
        if (!(error instanceof ForkServerEnded) || this.#stopped || tries === TRIES) throw error
      }
    }
  }

  async #start(wanted: Wanted): Promise<Child> {
    if (this.#stopped) throw new ForkServerEnded()
    const server = this.#process ?? this.#begin()
    const id = ++this.#ids
    const child = new ForkedChild(this.#clock)
    this.#children.set(id, child)
    // If that fails, its end follows.
    server.send({ id, ...wanted } satisfies ToForkServer, () => {})
    let looks = 0
    const look = (): void => {
      if (++looks === LOOKS_MAX) server.kill('SIGKILL')
      else timer = this.#clock.setTimer(look, LOOK_MS)
    }
    let timer = this.#clock.setTimer(look, LOOK_MS)
    return await child.started.finally(() => timer.cancel())
  }

  /** Ends the process. Call it when those that it has started have ended: nobody is told of their ends any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    const server = this.#process
    if (server === undefined) return
    const exited = once(server, 'exit')
    server.kill('SIGKILL')
    await exited
  }

  #begin(): ChildProcess {
    const server = spawnForkServer()
    this.#process = server
    const ended = () => {
      this.#process = undefined
      if (!this.#stopped)
        this.#log.warn(
          { forkServer: server.pid },
          'the process that starts workers has ended; another one takes its place',
        )
      for (const child of this.#children.values()) child.orphaned()
      this.#children.clear()
    }
    server.on('message', (message, pipe) => this.#take(message as FromForkServer, pipe as Socket | undefined))
    server.once('exit', ended).on('error', () => {})
    return server
  }

  #take(message: FromForkServer, pipe: Socket | undefined): void {
    const child = this.#children.get(message.id)
    // Of a child that was given up.
    if (child === undefined) pipe?.destroy()
    else if (message.type === 'started') child.identity = message.identity
    else if (message.type === 'pipe') child.take(message.pipe, pipe)
    else {
      this.#children.delete(message.id)
      if (message.type === 'exited') child.exited(message.signal)
      else child.failed(new Error(message.reason))
    }
  }
}

class ForkServerEnded extends Error {
  constructor() {
    super('The process that starts others has ended.')
  }
}

class ForkedChild implements Child {
  identity: ProcessIdentity = { pid: 0, startTime: null }
  hasExited = false
  signal: NodeJS.Signals | null = null
  readonly ended: Promise<void>
  /** Resolves with itself once it has its pipes. */
  readonly started: Promise<Child>
  readonly #begun = Promise.withResolvers<Child>()
  readonly #exit = Promise.withResolvers<void>()
  #answers: Socket | undefined
  #requests: Socket | undefined

  constructor(clock: Clock) {
    this.started = this.#begun.promise
    this.ended = this.#begun.promise.then(
      () => this.#end(clock),
      () => {},
    )
  }

  /**
   * The end of its answers is its end: only the system closes them, when none of its threads runs any more. How it ended is told by the fork
   * server, which may be stuck, or gone.
   */
  async #end(clock: Clock): Promise<void> {
    await closed(this.answers)
    await within(clock, EXIT_MS_MAX, this.#exit.promise)
    if (!this.hasExited) this.exited(null)
  }

  get answers(): Socket {
    return this.#answers as Socket
  }

  get requests(): Socket {
    return this.#requests as Socket
  }

  take(which: 'answers' | 'requests', pipe: Socket | undefined): void {
    if (which === 'answers') this.#answers = pipe
    else this.#requests = pipe
    if (this.#answers !== undefined && this.#requests !== undefined) this.#begun.resolve(this)
  }

  exited(signal: NodeJS.Signals | null): void {
    this.hasExited = true
    this.signal = signal
    // Nobody reads this direction, so that its end would go unnoticed.
    this.#requests?.destroy()
    this.#exit.resolve()
    const reason = 'The process has ended at once, or this one has no descriptors left for its pipes.'
    this.failed(new Error(reason))
  }

  /** Nobody will tell how it ended. */
  orphaned(): void {
    this.failed(new ForkServerEnded())
    this.#exit.resolve()
  }

  /** No-op for one that has started. */
  failed(error: Error): void {
    if (this.#answers !== undefined && this.#requests !== undefined) return
    this.#answers?.destroy()
    this.kill()
    this.#begun.reject(error)
  }

  kill(): void {
    const { pid, startTime } = this.identity
    // It is not this process's own child, so that its pid may be another process's once it has exited.
    if (pid === 0 || this.hasExited || isRunning(pid, startTime) === false) return
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // Gone meanwhile.
    }
  }
}

async function closed(pipe: Socket): Promise<void> {
  if (!pipe.closed) await once(pipe, 'close').catch(() => {})
}
