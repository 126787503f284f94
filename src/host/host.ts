import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { BackupProgressEvent } from '../backup/backup-manager.ts'
import type { CellRecord } from '../engine/cell-registry.ts'
import { type ProcessIdentity, processIdentity } from '../engine/directory-lock.ts'
import { encodeFrame, FrameReader } from './frames.ts'
import {
  ANSWERS_FD,
  type BatchCell,
  type FromHost,
  type HostSettings,
  type HostTask,
  type HostTaskResults,
  REQUESTS_FD,
  type ToHost,
} from './protocol.ts'
import { fromWireError, toWireError } from './wire-error.ts'

/** What a host says of the batch that it runs. */
export type BatchMessage = Extract<
  FromHost,
  { type: 'started' | 'upkeep' | 'results' | 'committed' | 'done' }
>

/** What a host says beside that. */
export type HostMessage = Extract<FromHost, { type: 'restored' | 'changed' | 'expiry' | 'log' }>

export interface TaskOptions {
  signal?: AbortSignal | undefined
  onProgress?: ((event: BackupProgressEvent) => void) | undefined
}

interface Task {
  resolve(value: unknown): void
  reject(error: unknown): void
  onProgress: ((event: BackupProgressEvent) => void) | undefined
}

/** Told to callers of a task whose host was ended: it can be asked of another one. */
export class HostEnded extends Error {
  constructor() {
    super('The host has ended.')
  }
}

/** Beyond its limit a process is refused memory: SQLite then fails the statement, and V8 ends the process. */
const SHELL = '/bin/sh'
const WITH_MEMORY_LIMIT = 'ulimit -d "$1" 2>/dev/null; shift; exec "$@"'

/** What V8 reserves for code and never uses counts against the limit: 530 MB were measured with Node.js 24. */
const RESERVED_BYTES = 544 * 1_048_576
const OUT_OF_MEMORY_SIGNALS: ReadonlySet<NodeJS.Signals> = new Set(['SIGABRT', 'SIGTRAP', 'SIGILL'])

/** Files of this module's neighbourhood are TypeScript in a clone, and one bundle each in the package. */
const ENTRY = fileURLToPath(
  import.meta.url.endsWith('.ts')
    ? new URL('./host-main.ts', import.meta.url)
    : new URL('./host.js', import.meta.url),
)

/** One host, as its node sees it: a child process, and the messages to and from it. */
export class Host {
  /** Resolves once it can be asked; rejects if it ended before. */
  readonly ready: Promise<void>
  /** Resolves once the process is gone. */
  readonly ended: Promise<void>
  readonly identity: ProcessIdentity
  onBatch: ((message: BatchMessage) => void) | undefined
  readonly #child: ChildProcess
  readonly #requests: Writable
  readonly #tasks = new Map<number, Task>()
  /** Cells whose record it has been told. */
  readonly #told = new Set<string>()
  #taskIds = 0
  #isReady = false

  /** @param memoryMax bytes of memory that the process may ask for */
  constructor(memoryMax: number, onMessage: (message: HostMessage, host: Host) => void) {
    const child = spawn(
      SHELL,
      [
        '-c',
        WITH_MEMORY_LIMIT,
        SHELL,
        String(Math.ceil((memoryMax + RESERVED_BYTES) / 1_024)),
        process.execPath,
        ENTRY,
      ],
      { stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'pipe'] },
    )
    this.#child = child
    this.#requests = child.stdio[REQUESTS_FD] as Writable
    // What can't be written any more is answered by the end of the process.
    this.#requests.on('error', () => {})
    this.identity = processIdentity(child.pid ?? -1)
    this.ended = once(child, 'close').then(
      () => this.#end(),
      () => this.#end(),
    )
    this.ready = new Promise((resolve, reject) => {
      const reader = new FrameReader((message) => this.#take(message as FromHost, resolve, onMessage))
      ;(child.stdio[ANSWERS_FD] as Readable).on('data', (chunk) => reader.push(chunk))
      void this.ended.then(() => reject(new HostEnded()))
    })
    this.ready.catch(() => {})
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** To be called once it is on record: from here on it may open what is the store's. */
  begin(settings: HostSettings): void {
    this.#send({ type: 'settings', settings })
  }

  /** @param cells without their records, which are added where they are needed */
  runBatch(
    name: string,
    cells: Omit<BatchCell, 'record'>[],
    record: (cellId: string) => CellRecord | undefined,
  ): void {
    const told = cells.map((cell) => {
      if (this.#told.has(cell.cellId)) return { ...cell, record: undefined }
      this.#told.add(cell.cellId)
      return { ...cell, record: record(cell.cellId) }
    })
    this.#send({ type: 'batch', name, cells: told })
  }

  /** @throws `HostEnded`, and what the task throws */
  runTask<T extends HostTask>(
    task: T,
    record: CellRecord | undefined,
    { signal, onProgress }: TaskOptions = {},
  ): Promise<HostTaskResults[T['task']]> {
    const id = ++this.#taskIds
    const abort = () => this.#send({ type: 'abort', id })
    return new Promise<unknown>((resolve, reject) => {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) return reject(new HostEnded())
      this.#tasks.set(id, { resolve, reject, onProgress })
      this.#send({ type: 'task', id, record, task })
      if (signal?.aborted === true) abort()
      else signal?.addEventListener('abort', abort, { once: true })
    }).finally(() => {
      this.#tasks.delete(id)
      signal?.removeEventListener('abort', abort)
    }) as Promise<HostTaskResults[T['task']]>
  }

  get hasTasks(): boolean {
    return this.#tasks.size > 0
  }

  /** Answers `restored`. */
  recorded(id: number, record: CellRecord | undefined, error?: unknown): void {
    this.#send({
      type: 'recorded',
      id,
      record,
      error: error === undefined ? undefined : toWireError(error),
    })
  }

  /** What it was told of a cell is out of date. */
  forget(cellId: string): void {
    this.#told.delete(cellId)
  }

  /** Bytes of memory that are really there; 0 where the system doesn't say. */
  residentBytes(): number {
    try {
      const pages = Number(fs.readFileSync(`/proc/${this.identity.pid}/statm`, 'utf8').split(' ')[1])
      return pages * 4_096
    } catch {
      return 0
    }
  }

  /** Gives way to others: a busy neighbour must not slow them down. */
  yieldToOthers(): void {
    try {
      os.setPriority(this.identity.pid, os.constants.priority.PRIORITY_LOW)
    } catch {
      // It has just ended.
    }
  }

  /** Whether it has ended as V8 ends when it gets no memory. */
  get ranOutOfMemory(): boolean {
    return this.#child.signalCode !== null && OUT_OF_MEMORY_SIGNALS.has(this.#child.signalCode)
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  /** Lets it finish and close its cells. */
  stop(): void {
    this.#send({ type: 'stop' })
  }

  #send(message: ToHost): void {
    this.#requests.write(encodeFrame(message))
  }

  #take(message: FromHost, ready: () => void, onMessage: (message: HostMessage, host: Host) => void): void {
    switch (message.type) {
      case 'ready':
        this.#isReady = true
        ready()
        break
      case 'reply': {
        const task = this.#tasks.get(message.id)
        if (message.error === undefined) task?.resolve(message.value)
        else task?.reject(fromWireError(message.error))
        break
      }
      case 'progress':
        this.#tasks.get(message.id)?.onProgress?.(message.event)
        break
      case 'restored':
      case 'changed':
      case 'expiry':
      case 'log':
        onMessage(message, this)
        break
      default:
        this.onBatch?.(message)
    }
  }

  #end(): void {
    for (const task of this.#tasks.values()) task.reject(new HostEnded())
  }
}
