import fs from 'node:fs'
import net from 'node:net'
import type { ManifestHead } from '../../backup/archive/manifest.ts'
import { systemClock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { StorePaths } from '../../base/store-paths.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { joinWorkers } from '../../catalog/workers-lock.ts'
import { MessageReader } from '../protocol/messages.ts'
import { ANSWERS_FD, REQUESTS_FD, type ToWorker, type WorkerSettings } from '../protocol/protocol.ts'
import { fromWireError, toWireError } from '../protocol/wire-error.ts'
import { BatchRunner } from './batch-runner.ts'
import { Outbox } from './outbox.ts'
import { WorkerCells } from './worker-cells.ts'
import { WorkerTasks } from './worker-tasks.ts'

/**
 * A worker: a process that holds cells open and runs its node's requests. It opens nothing before its settings arrive;
 * the node has recorded the process by then. It ends when the node ends.
 */
class WorkerMain {
  #parts: { cells: WorkerCells; batches: BatchRunner; tasks: WorkerTasks } | undefined
  readonly #recorded = new Map<number, (message: Extract<ToWorker, { type: 'recorded' }>) => void>()
  #questions = 0
  #batch: Promise<void> = Promise.resolve()

  handle(message: ToWorker): void {
    if (message.type === 'settings') {
      this.#start(message.settings)
      out.send({ type: 'ready' })
      return
    }
    const { cells, batches, tasks } = this.#started
    switch (message.type) {
      case 'batch':
        cells.forget(message.forget, (cellId) => tasks.isBusyWith(cellId))
        for (const { cellId, record } of message.cells)
          if (record !== undefined) cells.setRecord(cellId, record)
        cells.local.pool.endWork()
        this.#batch = batches.run(message.name, message.cells)
        break
      case 'task':
        if (message.record !== undefined) cells.setRecord(message.task.cellId, message.record)
        tasks.run(message.id, message.task)
        break
      case 'abort':
        tasks.abort(message.id)
        break
      case 'ping':
        out.send({ type: 'pong' })
        break
      case 'recorded':
        this.#recorded.get(message.id)?.(message)
        break
      case 'stop':
        void this.#stop()
        break
    }
  }

  #start(settings: WorkerSettings): void {
    joinWorkers(new StorePaths(settings.dataDir))
    // The next owner of the store waits for this lock. If it came before the lock, this worker's node has ended.
    if (process.ppid !== settings.nodePid) die()
    const cells = new WorkerCells(settings, log, {
      changed: (cellId) => out.send({ type: 'changed', cellId }),
      working: (cellId) => out.send({ type: 'working', cellId }),
      expiry: () => out.send({ type: 'expiry' }),
      restored: (cellId, manifest) => this.#askToRecord(cellId, manifest),
    })
    const { sqlPolicy, answerBytesMax, sliceMs } = settings
    const { openCellsMax } = settings.settings
    const context = { sqlPolicy, answerBytesMax, clock: cells.settings.clock }
    this.#parts = {
      cells,
      batches: new BatchRunner(cells.local, context, { openCellsMax, sliceMs }, out),
      tasks: new WorkerTasks(cells, (message) => out.send(message)),
    }
  }

  get #started() {
    if (this.#parts === undefined) throw new Error('The worker got a request before its settings.')
    return this.#parts
  }

  #askToRecord(cellId: string, manifest: ManifestHead): Promise<CellRecord | undefined> {
    const id = ++this.#questions
    return new Promise((resolve, reject) => {
      this.#recorded.set(id, ({ record, error }) => {
        this.#recorded.delete(id)
        if (error === undefined) resolve(record)
        else reject(fromWireError(error))
      })
      out.send({ type: 'restored', id, cellId, manifest })
    })
  }

  async #stop(): Promise<void> {
    await this.#batch
    await this.#started.cells.close()
    process.exit(0)
  }
}

/** Ends the process at once: an orderly exit could still run queued work. */
function die(): void {
  process.kill(process.pid, 'SIGKILL')
}

/** Blocks until the pipe has the bytes. If the node has ended, the worker ends at once. */
const out = new Outbox(systemClock, (bytes) => {
  try {
    for (let at = 0; at < bytes.length; ) at += fs.writeSync(ANSWERS_FD, bytes, at)
  } catch {
    // Without a node to report to, nothing may be committed (invariant 2).
    die()
  }
})

const log: Log = {
  info: (fields, message) => sendLog('info', fields, message),
  warn: (fields, message) => sendLog('warn', fields, message),
  error: (fields, message) => sendLog('error', fields, message),
}

function sendLog(level: keyof Log, fields: object, message: string): void {
  const { err, ...rest } = fields as { err?: unknown }
  out.send({
    type: 'log',
    level,
    fields: rest,
    err: err === undefined ? undefined : toWireError(err),
    message,
  })
}

// The node stops its workers in order. A signal to the whole process group must not end them before that.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})

const worker = new WorkerMain()
const reader = new MessageReader((message) => worker.handle(message as ToWorker))
const requests = new net.Socket({ fd: REQUESTS_FD, readable: true, writable: false })
requests.on('data', (chunk) => reader.push(chunk))
// The node ended without a stop message: no answer could arrive, and committed work is on disk.
for (const event of ['end', 'error', 'close']) requests.on(event, die)

// A bug: this process's memory may be wrong. The node starts another worker.
process.on('uncaughtException', (err) => {
  log.error({ err }, 'unexpected error in a worker process; it ends and is replaced')
  die()
})
