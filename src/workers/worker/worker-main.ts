import { packLogs } from '../../backup/changes/log/packed-logs.ts'
import { setImmediate, systemClock } from '../../base/clock.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import { joinWorkers } from '../../catalog/directory-lock.ts'
import { dieWithout, listenToNode, writeToNode } from '../protocol/child-side.ts'
import { logToNode } from '../protocol/log-message.ts'
import { Outbox } from '../protocol/outbox.ts'
import { unpackCells } from '../protocol/packed.ts'
import type { ToWorker, WorkerOutbox, WorkerSettings } from '../protocol/protocol.ts'
import { toWireError } from '../protocol/wire-error.ts'
import { BatchRunner } from './batch-runner.ts'
import { WorkerCells } from './worker-cells.ts'
import { WorkerTasks } from './worker-tasks.ts'

/**
 * A worker: a process that has cells open and runs its node's requests. It opens nothing before its settings arrive;
 * the node has recorded the process by then. It ends when the node ends.
 */
class WorkerMain {
  #parts: { cells: WorkerCells; batches: BatchRunner; tasks: WorkerTasks } | undefined
  /** While one runs. */
  #batch: Promise<void> | undefined

  /** @param parts of the message: see messages.ts */
  handle(message: ToWorker, parts: Buffer[]): void {
    // It only asks whether the process lives.
    if (message.type === 'ping') out.send({ type: 'pong' })
    else if (message.type === 'settings') {
      this.#start(message.settings)
      out.send({ type: 'ready' })
    } else this.#handle(message, parts)
  }

  #handle(message: Exclude<ToWorker, { type: 'ping' | 'settings' }>, parts: Buffer[]): void {
    const { cells, batches, tasks } = this.#started
    switch (message.type) {
      case 'batch':
        tasks.beforeBatch(message.cells.map(({ cellId }) => cellId))
        cells.forget(message.forget, (cellId) => tasks.isBusyWith(cellId))
        for (const { cellId, record } of message.cells)
          if (record !== undefined) cells.setRecord(cellId, record)
        cells.local.pool.endWork()
        this.#batch = batches.run(unpackCells(message.cells, parts)).finally(() => {
          this.#batch = undefined
        })
        break
      case 'task':
        if (message.record !== undefined) cells.setRecord(message.task.cellId, message.record)
        tasks.run(message.id, message.task)
        break
      case 'abort':
        tasks.abort(message.id)
        break
      case 'watch':
        cells.local.setWatched(message.cellId, message.isWatched)
        break
      case 'reset-histories':
        // What came before it belongs to the time before it.
        tasks.startAll()
        cells.resetHistories(message.reset)
        out.send({ type: 'histories-reset' })
        break
      case 'building':
        cells.setBuilding(message.cellIds)
        break
      case 'collect-logs':
        void this.#collectLogs(message)
        break
      case 'logs-shipped':
        cells.local.archived?.logs.shipped(message.places)
        break
      case 'stop':
        void this.#stop()
        break
    }
  }

  #start(settings: WorkerSettings): void {
    joinWorkers(new StorePaths(settings.dataDir))
    dieWithout(settings.node)
    const cells = new WorkerCells(settings, log, {
      changed: (cellId) => out.send({ type: 'changed', cellId }),
      working: (cellId) => out.send({ type: 'working', cellId }),
      expiry: () => out.send({ type: 'expiry' }),
      committed: (cellId, changes) => {
        out.post({ type: 'commit', cellId, changes })
        // A batch sends more in the same turn. What else commits may have nothing more to say.
        setImmediate(() => out.flush())
      },
      unshipped: (cellId) => out.send({ type: 'unshipped', cellId }),
      interrupted: (cellId) => out.send({ type: 'interrupted', cellId }),
    })
    const { sqlPolicy, sliceMs, slowMs } = settings
    const { openCellsMax, limits } = settings.settings
    const bounds = { ...settings.bounds, limits }
    const context = { sqlPolicy, answerBytesMax: bounds.result.bytesMax, clock: cells.settings.clock }
    const batches = new BatchRunner(cells.local, context, { openCellsMax, bounds, sliceMs, slowMs }, out)
    const tasks = new WorkerTasks({
      cells,
      send: (message) => out.send(message),
      batch: () => this.#batch,
    })
    this.#parts = { cells, batches, tasks }
  }

  get #started() {
    if (this.#parts === undefined) throw new Error('The worker got a request before its settings.')
    return this.#parts
  }

  async #collectLogs({ id, limits }: Extract<ToWorker, { type: 'collect-logs' }>): Promise<void> {
    try {
      const logs = await this.#started.cells.collectLogs(limits)
      out.send({ type: 'reply', id, value: packLogs(logs), error: undefined })
    } catch (error) {
      log.error({ err: error }, 'could not collect what cells have not shipped')
      out.send({ type: 'reply', id, value: undefined, error: toWireError(error) })
    }
  }

  async #stop(): Promise<void> {
    this.#started.tasks.startAll()
    await this.#batch
    await this.#started.cells.close()
    process.exit(0)
  }
}

const out: WorkerOutbox = new Outbox(systemClock, writeToNode)
const log = logToNode((message) => out.send(message))
const worker = new WorkerMain()
listenToNode((message, parts) => worker.handle(message as ToWorker, parts), log)
