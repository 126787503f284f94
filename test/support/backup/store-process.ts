import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { StoredBackup } from '../../../src/backup/changes/log/cell-cuts.ts'
import type { BackupResult } from '../../../src/backup/versions/backup-types.ts'
import type { ScratchPlace } from './scratch-store.ts'

export interface ChildSettings {
  checkpointBytes?: number
  openCellsMax?: number
  backups?: { keep: string; prune: boolean }
}

/** What a store in a process of its own can be asked to do. */
export type StoreOrder =
  | { do: 'open'; data: string; objects: string; now: number; settings: ChildSettings }
  | { do: 'sql'; cellId: string; sql: string; params?: (string | number)[] }
  | { do: 'snapshot' | 'incremental'; cellId: string }
  /** Begins an incremental whose put waits for ever; answered when it does. */
  | { do: 'backup until put'; cellId: string }
  /** Begins a base, and answers with its start; ends one, and answers with its cut; or is told that it is stored. */
  | { do: 'begin base'; cellId: string }
  | { do: 'end base'; cellId: string; id: string; version: string }
  | { do: 'base stored'; cellId: string; backup: StoredBackup }
  /** From here on nothing is written to the local state any more. */
  | { do: 'forget rows' }
  | { do: 'prune' | 'verify' | 'purge'; cellId: string }
  /** Ends the uploads that nobody has finished. */
  | { do: 'sweep' }
  | { do: 'close' }

/** What it answers, or tells unasked: that a backup has been cut, under which name, and what it holds. */
export interface StoreAnswer {
  result?: unknown
  error?: string
  attempt?: { version: string; digest: string }
}

/** A store in a process of its own, which can be killed in the middle of anything. */
export class StoreProcess {
  readonly #process: ChildProcess
  readonly #answers: ((answer: StoreAnswer) => void)[] = []
  /** Every backup that was cut, stored or not: what each holds. */
  readonly attempts = new Map<string, string>()

  private constructor(process: ChildProcess) {
    this.#process = process
    process.on('message', (answer: StoreAnswer) => {
      if (answer.attempt) this.attempts.set(answer.attempt.version, answer.attempt.digest)
      else this.#answers.shift()?.(answer)
    })
  }

  /** @param place where its objects are: a folder, or the URL of a bucket */
  static async open(
    place: Pick<ScratchPlace, 'data' | 'objects' | 'clock'>,
    settings: ChildSettings = {},
  ): Promise<StoreProcess> {
    const script = fileURLToPath(new URL('./store-process-child.ts', import.meta.url))
    const store = new StoreProcess(fork(script, [], { execArgv: ['--no-warnings'] }))
    const { data, objects, clock } = place
    await store.order({ do: 'open', data, objects, now: clock.now(), settings })
    return store
  }

  async order(order: StoreOrder): Promise<unknown> {
    const answer = new Promise<StoreAnswer>((resolve) => this.#answers.push(resolve))
    this.#process.send(order)
    const { result, error } = await answer
    if (error !== undefined) throw new Error(error)
    return result
  }

  async sql(cellId: string, sql: string, params: (string | number)[] = []): Promise<void> {
    await this.order({ do: 'sql', cellId, sql, params })
  }

  async backup(kind: 'snapshot' | 'incremental', cellId: string): Promise<BackupResult> {
    return (await this.order({ do: kind, cellId })) as BackupResult
  }

  /** As the kernel does it when memory runs out. What it was asked last may or may not have been done. */
  async kill(): Promise<void> {
    const ended = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await ended
  }

  async close(): Promise<void> {
    const ended = once(this.#process, 'exit')
    await this.order({ do: 'close' })
    await ended
  }
}
