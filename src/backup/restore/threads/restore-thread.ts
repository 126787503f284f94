import fs from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { ImportRules } from '../../../engine/files/import-database.ts'
import { CellError } from '../../../errors.ts'
import type { RestoreTask, RestoreTaskRunner } from './restore-task.ts'
import { UNPACKED_BYTES } from './restore-task.ts'
import type { TaskOutcome } from './restore-thread-main.ts'

/** The thread's entry file: next to this one in the sources, an entry of its own in the build. */
const MAIN = import.meta.url.endsWith('.ts')
  ? new URL('./restore-thread-main.ts', import.meta.url)
  : new URL('./restore-thread.js', import.meta.url)

/** Otherwise a bundle that lacks the file would say so with the first large backup. @throws `internal` */
export function assertThreadFile(): void {
  if (MAIN.protocol !== 'file:' || fs.existsSync(MAIN)) return
  throw new CellError(
    'internal',
    `Backups need cellstore's file ${fileURLToPath(MAIN)}, and it is not there. A bundle needs it as a second entry: see "A bundle" in cellstore's docs/recipes.md.`,
  )
}

/**
 * Address space for compiled code, in MiB. V8's default is 512, which counts against the memory limit of a worker process:
 * a second restore at the same time, or the first under a small limit, ended the process.
 */
const CODE_RANGE_MIB = 16
/** For new objects. With V8's default, four threads had the archiver near 300 MB after a total loss, and were no faster. */
const YOUNG_MIB = 6

/** Runs tasks in another thread: the check of a large database must not block the event loop. */
export class RestoreThread implements RestoreTaskRunner {
  readonly #worker: Worker
  /** Outcomes come in the order of the tasks. */
  readonly #waiting: PromiseWithResolvers<string | undefined>[] = []
  /** Room for an archive, shared with the thread: only the pages that are used count. */
  readonly memory = Buffer.from(new SharedArrayBuffer(UNPACKED_BYTES.max))
  #failure: unknown

  constructor() {
    // Not all options of the process are valid for a thread, and none is needed.
    this.#worker = new Worker(MAIN, {
      execArgv: [],
      name: 'cellstore restore',
      // Sent once: the collector counts all of it with each message that has it.
      workerData: this.memory,
      resourceLimits: { codeRangeSizeMb: CODE_RANGE_MIB, maxYoungGenerationSizeMb: YOUNG_MIB },
    })
    this.#worker
      .on('message', (outcome: TaskOutcome) => this.#settle(outcome))
      .on('messageerror', (error) => this.#fail(error))
      .on('error', (error) => this.#fail(error))
      .on('exit', (code) =>
        this.#fail(new Error(`The restore thread exited unexpectedly with code ${code}.`)),
      )
  }

  async run(task: RestoreTask): Promise<string | undefined> {
    if (this.#failure !== undefined) throw this.#failure
    const outcome = Promise.withResolvers<string | undefined>()
    this.#waiting.push(outcome)
    this.#worker.postMessage(task)
    return outcome.promise
  }

  /** The thread can run no more tasks. */
  get failed(): boolean {
    return this.#failure !== undefined
  }

  /** Whether the thread keeps the process alive. */
  keepsAlive(does: boolean): void {
    if (does) this.#worker.ref()
    else this.#worker.unref()
  }

  /** Waits for a running task: a thread cannot be stopped inside SQLite. */
  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #settle(outcome: TaskOutcome): void {
    const waiting = this.#waiting.shift()
    if ('error' in outcome) {
      const { code, message, details, cause } = outcome.error
      waiting?.reject(new CellError(code, message, { ...details, cause }))
    } else waiting?.resolve(outcome.value)
  }

  #fail(error: unknown): void {
    this.#failure ??= error
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
  }
}

/** `importDatabase` in a thread of its own. @throws as that; `internal` if the thread ends */
export async function importInThread(file: string, target: string, rules: ImportRules): Promise<void> {
  const thread = new RestoreThread()
  try {
    await thread.run({ kind: 'import', file, target, rules })
  } finally {
    await thread.close()
  }
}
