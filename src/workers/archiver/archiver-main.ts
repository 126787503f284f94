import { Archiver, type JobOptions } from '../../backup/archiver/archiver.ts'
import { BackupDestination } from '../../backup/archiver/backup-destination.ts'
import type { CellPort } from '../../backup/archiver/cell-port.ts'
import type { CollectedLook } from '../../backup/changes/log/cell-log.ts'
import { type PackedPiece, unpackLogs } from '../../backup/changes/log/packed-logs.ts'
import { BackupProgressTable } from '../../backup/changes/progress-table.ts'
import { FileDatabaseReader } from '../../backup/create/database-reader.ts'
import { EpochGuard } from '../../backup/fence/epoch-guard.ts'
import { FencedObjectStore } from '../../backup/fence/fenced-object-store.ts'
import { scopedTo } from '../../backup/fence/scoped-object-store.ts'
import { ObservedObjectStore } from '../../backup/object-store/object-store-calls.ts'
import { openObjectStore } from '../../backup/object-store/open-object-store.ts'
import { RetentionTable } from '../../backup/versions/retention/retention-table.ts'
import { VersionFindings } from '../../backup/versions/version-findings.ts'
import { systemClock } from '../../base/clock.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import { joinWorkers } from '../../catalog/directory-lock.ts'
import { LocalState } from '../../catalog/local-state.ts'
import type {
  ArchiverJob,
  ArchiverSettings,
  CellCall,
  FromArchiver,
  ToArchiver,
} from '../protocol/archiver-protocol.ts'
import { dieWithout, listenToNode, writeToNode } from '../protocol/child-side.ts'
import { logToNode } from '../protocol/log-message.ts'
import { OpenCalls } from '../protocol/open-calls.ts'
import { Outbox } from '../protocol/outbox.ts'
import { toWireError } from '../protocol/wire-error.ts'
import { CheckProcesses } from './check-processes.ts'

const outbox = new Outbox<FromArchiver>(systemClock, writeToNode)
const send = (message: FromArchiver) => outbox.send(message)
const sendSoon = (message: FromArchiver) => outbox.postSoon(message)
const log = logToNode(send)

const calls = new OpenCalls<unknown>()
/** The archiver's way to the cells of its node: each call is a message, and so is its answer. */
const cells = new Proxy({} as CellPort, {
  get:
    (_, method) =>
    async (...args: unknown[]) => {
      const { id, promise } = calls.begin(undefined)
      send({ type: 'call', id, call: { method, args } as CellCall })
      const answer = await promise
      return method === 'collectLogs' ? unpackLogs(answer as CollectedLook<PackedPiece>) : answer
    },
})

/**
 * The archiver: a process that does the work of backups and restores for its node. It runs no SQL of a tenant and opens
 * no cell; the workers do what concerns an open cell. It ends when the node ends.
 */
class ArchiverMain {
  readonly #aborts = new Map<number, AbortController>()
  #parts:
    | { archiver: Archiver; destination: BackupDestination; state: LocalState; guard: EpochGuard }
    | undefined

  handle(message: ToArchiver): void {
    switch (message.type) {
      case 'settings':
        this.#start(message.settings)
        send({ type: 'ready' })
        break
      case 'job':
        void this.#run(message.id, message.job)
        break
      case 'abort':
        this.#aborts.get(message.id)?.abort()
        break
      case 'epoch':
        this.#started.guard.hold(message.epoch)
        break
      case 'raise':
        this.#started.archiver.raise(message.cellId, message.need)
        break
      case 'flush':
        void this.#flush(message)
        break
      case 'answer':
        calls.settle(message)
        break
      case 'ping':
        send({ type: 'pong' })
        break
      case 'stop':
        void this.#stop(message.deadlineMs)
    }
  }

  #start(settings: ArchiverSettings): void {
    const {
      node,
      dataDir,
      objectStore: url,
      storeId,
      prefix,
      epoch,
      limits,
      plans,
      queue,
      shipping,
    } = settings
    const paths = new StorePaths(dataDir)
    joinWorkers(paths)
    dieWithout(node)
    const clock = systemClock
    const state = LocalState.join(paths.localState)
    const opened = openObjectStore(url, { clock, dataDir })
    const observed = new ObservedObjectStore(opened, (ended) => sendSoon({ type: 'object-store', ended }))
    const storeOf = (each: string) => scopedTo(observed, each, () => storeId)
    const objectStore = storeOf(prefix)
    const guard = new EpochGuard(objectStore, clock)
    if (epoch !== undefined) guard.hold(epoch)
    guard.lost.listen((error) => send({ type: 'taken-over', error: toWireError(error) }))
    const destination = new BackupDestination({
      objectStore: new FencedObjectStore(objectStore, guard, clock),
      prefix,
      storeOf,
      storeId,
      paths: (id) => paths.cell(id),
      progress: new BackupProgressTable(state),
      findings: new VersionFindings(state),
      retention: new RetentionTable(state),
      plans,
      spoolDirectory: paths.spoolOf(process.pid),
      threadsKept: queue.atOnce.restore,
      separateChecks: new CheckProcesses(clock, log),
      cellBytesMax: limits.cellBytesMax,
      epoch: () => guard.epoch,
      clock,
      log,
    })
    destination.moved.listen(() => send({ type: 'moved' }))
    const archiver = new Archiver({
      destination,
      cells,
      paths: (id) => paths.cell(id),
      openReader: (_id, { databasePath }) => FileDatabaseReader.open(databasePath),
      limits,
      queue,
      shipping: shipping && {
        ...shipping,
        guard,
        random: clock.random,
        onState: (state) => send({ type: 'shipping', state }),
      },
    })
    this.#parts = { archiver, destination, state, guard }
  }

  get #started() {
    if (this.#parts === undefined) throw new Error('The archiver got a request before its settings.')
    return this.#parts
  }

  async #run(id: number, job: ArchiverJob): Promise<void> {
    const { archiver } = this.#started
    const abort = new AbortController()
    this.#aborts.set(id, abort)
    const options: JobOptions = {
      signal: abort.signal,
      onBegin: () => send({ type: 'begun', id }),
      onProgress: (event) => sendSoon({ type: 'progress', id, event }),
    }
    try {
      const value = await archiver[job.job](job.request as never, options)
      send({ type: 'reply', id, value, error: undefined })
    } catch (error) {
      send({ type: 'reply', id, value: undefined, error: toWireError(error) })
    } finally {
      this.#aborts.delete(id)
    }
  }

  async #flush({ id, cells }: Extract<ToArchiver, { type: 'flush' }>): Promise<void> {
    try {
      const value = await this.#started.archiver.flush(undefined, { cells })
      send({ type: 'flushed', id, value, error: undefined })
    } catch (error) {
      send({ type: 'flushed', id, value: undefined, error: toWireError(error) })
    }
  }

  /** Lets jobs end until the deadline, and cancels the others. */
  async #stop(deadlineMs: number): Promise<void> {
    const { archiver, destination, state } = this.#started
    const deadline = new AbortController()
    systemClock.setTimer(() => deadline.abort(), deadlineMs)
    await archiver.stop(deadline.signal)
    await destination.close()
    await destination.objectStore.close()
    state.close()
    process.exit(0)
  }
}

const archiver = new ArchiverMain()
listenToNode((message) => archiver.handle(message as ToArchiver), log)
