import fs from 'node:fs'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import type { Clock } from '../../../src/base/clock.ts'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { LocalState } from '../../../src/catalog/local-state.ts'
import type { MemoryBound } from '../../../src/engine/open-memory.ts'
import { ExpiryHints } from '../../../src/kv/expiry/expiry-hints.ts'
import { Spool } from '../../../src/store/cells/spool-files.ts'
import { LocalCells } from '../../../src/store/open/local-cells.ts'
import { resolveSettings } from '../../../src/store/settings/settings.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { CellsFolder } from '../../../src/store/start/cells-folder.ts'
import type { QueuedOperation } from '../../../src/workers/node/dispatch/queued-operation.ts'
import type { BatchMessage } from '../../../src/workers/node/processes/worker-process.ts'
import { MessageReader } from '../../../src/workers/protocol/messages.ts'
import { Outbox } from '../../../src/workers/protocol/outbox.ts'
import { BatchRunner } from '../../../src/workers/worker/batch-runner.ts'
import { BOUNDS } from '../request-bounds.ts'

/** The parts that came with a message. */
export const PARTS = new WeakMap<BatchMessage, Buffer[]>()

/** What a worker does with batches, over the files in a directory. */
export class BatchWorker {
  readonly directory: string
  readonly cells: LocalCells
  readonly clock: Clock
  readonly #state: LocalState
  readonly #runner: BatchRunner
  /** Whose time began, in order. */
  readonly working: (string | undefined)[] = []
  /** Told of what leaves the worker at once. */
  onWrite: (messages: BatchMessage[]) => void = () => {}

  constructor(
    directory: string,
    options: StoreOptions = {},
    accounts: { of(cellId: string): string | null; memory?: MemoryBound } = { of: () => null },
    /** Milliseconds; by default batches take as long as they take. */
    {
      sliceMs = Number.POSITIVE_INFINITY,
      processorMs,
    }: { sliceMs?: number; processorMs?: () => number } = {},
  ) {
    this.directory = directory
    const paths = new StorePaths(directory)
    const settings = resolveSettings({ sqlPolicy: 'trusted', ...options })
    this.clock = settings.clock
    fs.mkdirSync(directory, { recursive: true })
    this.#state = LocalState.join(path.join(directory, 'state.db'))
    this.cells = new LocalCells({
      spool: new Spool(paths.spool),
      paths,
      settings,
      hints: new ExpiryHints(this.#state),
      folder: new CellsFolder(paths.cells, this.#state),
      changes: undefined,
      record: (id) => ({
        id,
        accountId: accounts.of(id),
        name: null,
        createdAt: 0,
        deletedAt: null,
        durability: null,
      }),
      memory: accounts.memory,
      working: (id) => this.working.push(id),
      commits: { committed: () => {}, interrupted: () => {} },
      expiryNoted: () => {},
      recover: undefined,
    })
    const context = { sqlPolicy: 'trusted', clock: settings.clock, answerBytesMax: 1_000_000 } as const
    const out = new Outbox(settings.clock, (bytes) => {
      const messages: BatchMessage[] = []
      new MessageReader((message, parts) => {
        PARTS.set(message as BatchMessage, parts)
        messages.push(message as BatchMessage)
      }).push(bytes)
      this.onWrite(messages)
    })
    const bounds = { ...BOUNDS, limits: settings.limits }
    this.#runner = new BatchRunner(
      this.cells,
      context,
      { openCellsMax: 10, bounds, sliceMs },
      out,
      processorMs,
    )
    onTestFinished(() => this.close())
  }

  async run(cells: readonly Pick<QueuedOperation, 'cellId' | 'operation'>[][]): Promise<void> {
    const wire = cells.map((operations) => ({
      cellId: operations[0]?.cellId as string,
      record: undefined,
      operations: operations.map(({ operation }) => operation),
    }))
    await this.#runner.run(wire)
  }

  /** Runs what has to succeed, without a batch. */
  sql(cellId: string, text: string): unknown[] {
    return this.cells.handle(cellId).sql(text).rows
  }

  close(): void {
    this.cells.pool.closeAll()
    this.#state.close()
  }
}
