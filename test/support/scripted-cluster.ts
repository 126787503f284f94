import fs from 'node:fs'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import { scopedTo } from '../../src/backup/fence/scoped-object-store.ts'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { bufferBody } from '../../src/backup/object-store/object-store.ts'
import { findLastLog } from '../../src/backup/shipping/stored/last-log.ts'
import { fenceKey } from '../../src/backup/versions/object-keys.ts'
import type { Clock } from '../../src/base/clock.ts'
import { exists } from '../../src/base/files/durable-files.ts'
import { newCellId, StorePaths } from '../../src/base/files/store-paths.ts'
import {
  type Assignment,
  afterMoves,
  firstAssignment,
  isInSpans,
  type Move,
  type RangeSpan,
  rangeOf,
  spansOf,
  withRange,
} from '../../src/catalog/assignment/assignment.ts'
import type { CellOwner, Ownership } from '../../src/catalog/assignment/ownership.ts'
import { Catalog } from '../../src/catalog/catalog.ts'
import type { CellHost } from '../../src/store/cell-host.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { CreateCellOptions } from '../../src/store/cells/cell-directory.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { notHere } from '../../src/store/residence/residence.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { CATALOG_SCHEMA } from '../../src/store/store-core.ts'
import { GatedStore } from './backup/object-store-decorators.ts'
import { FakeClock } from './fake-clock.ts'
import { tempDirectory } from './temp-directory.ts'

const MINUTE_MS = 60_000
export const ALL: RangeSpan = { lo: 0, hi: 4_095 }

/** A node whose assignment a test writes. */
export class ScriptedOwnership implements Ownership {
  assignment: Assignment
  readonly prefix: string
  readonly nodeId: string
  readonly earlierStamps: number
  readonly #clock: Clock
  /** By number. */
  #acquired = new Set<number>()

  constructor(nodeId: string, prefix: string, assignment: Assignment, clock: Clock) {
    this.nodeId = nodeId
    this.prefix = prefix
    this.assignment = assignment
    this.#clock = clock
    this.earlierStamps = clock.now()
    // A start sets aside what is stale before it serves.
    this.acquire(spansOf(assignment, nodeId))
  }

  /** As the rule of a beat says. */
  get stampBound(): number {
    const before = spansOf(this.assignment, this.nodeId).flatMap((span) => span.before)
    const first = Math.max(0, ...before.map(({ stampBound }) => stampBound)) + 5_000
    return Math.max(this.#clock.now() + MINUTE_MS, first)
  }

  acquire(spans: readonly RangeSpan[]): void {
    for (const { lo, hi } of spans) for (let range = lo; range <= hi; range++) this.#acquired.add(range)
  }

  learn(assignment: Assignment): void {
    this.assignment = assignment
    const own = spansOf(assignment, this.nodeId)
    for (const range of this.#acquired) if (!isInSpans(range, own)) this.#acquired.delete(range)
  }

  isHere(cellId: string): boolean {
    const range = rangeOf(cellId)
    return isInSpans(range, spansOf(this.assignment, this.nodeId)) && this.#acquired.has(range)
  }

  ownerOf(cellId: string): CellOwner {
    return this.isHere(cellId) ? 'here' : 'moving'
  }

  assertMayAnswer(): void {}

  newCellId(): string {
    const [span] = spansOf(this.assignment, this.nodeId)
    if (span === undefined) throw notHere()
    return withRange(newCellId(), span.lo)
  }
}

/** Stays behind or before the clock of all by so much. */
function shifted(clock: FakeClock, ms: number): Clock {
  return {
    now: () => clock.now() + ms,
    monotonic: () => clock.monotonic(),
    sinceBoot: () => clock.sinceBoot(),
    setTimer: (run, delayMs) => clock.setTimer(run, delayMs),
  }
}

export interface ScriptedNode {
  name: string
  ownership: ScriptedOwnership
  store: CellStore
  host: CellHost
  /** Between the node and the bucket. */
  link: GatedStore
  isClosed: boolean
  clock: Clock
}

/** Nodes in one process, each on a directory of its own, that share a folder of objects. What a catalog's log and beats do is scripted. */
export class ScriptedCluster {
  readonly root = tempDirectory('cellstore-cluster')
  readonly clock = new FakeClock()
  readonly storeId = newCellId()
  readonly nodes = new Map<string, ScriptedNode>()
  /** One that makes no bound: `soon` never passes it. */
  readonly options: StoreOptions
  assignment = firstAssignment('A', '')

  constructor(options: StoreOptions = {}) {
    this.options = options
    onTestFinished(async () => {
      for (const { store, link } of this.nodes.values()) {
        link.open()
        await this.soon(store.close({ deadlineMs: Number.MAX_SAFE_INTEGER })).catch(() => {})
      }
    })
  }

  bucket(): FileObjectStore {
    return new FileObjectStore({ root: path.join(this.root, 'objects') })
  }

  /** The keys of the bucket that begin so. */
  async keys(prefix: string): Promise<string[]> {
    const keys: string[] = []
    for await (const { key } of this.bucket().list(prefix)) keys.push(key)
    return keys
  }

  soon<T>(work: Promise<T>): Promise<T> {
    return this.clock.advanceUntil(work, 1_000)
  }

  /** @param aheadMs of the clock of all */
  async start(
    name: string,
    { aheadMs = 0, prefix = name === 'A' ? '' : `nodes/${name}/` } = {},
  ): Promise<ScriptedNode> {
    const directory = path.join(this.root, name)
    const clock = shifted(this.clock, aheadMs)
    const { catalog } = new StorePaths(directory)
    if (!exists(catalog))
      Catalog.write(catalog, { storeId: this.storeId, createdAt: clock.now(), schema: CATALOG_SCHEMA })
    const ownership = new ScriptedOwnership(name, prefix, this.assignment, clock)
    const link = new GatedStore(this.bucket())
    const { backups, ...options } = this.options
    const settings: StoreOptions = {
      objectStore: link,
      ownership,
      leaseMs: 3_600_000,
      clock,
      random: () => 0.5,
      ...options,
      backups: {
        snapshotEveryMs: null,
        incrementalEveryMs: null,
        drillEveryMs: null,
        maxLagMs: 3_600_000,
        deadlineMs: Number.MAX_SAFE_INTEGER,
        recoverInBackground: false,
        ...backups,
      },
    }
    const store = await this.soon(CellStore.openOrCreate(directory, settings))
    const node = { name, ownership, store, host: store.host as CellHost, link, clock, isClosed: false }
    this.nodes.set(name, node)
    this.#shareCells(node)
    return node
  }

  /** A node that was taken over comes back as another one: what its directory knew of the old prefix goes, as `start` of a node does it. */
  async rejoin(before: string, name: string): Promise<ScriptedNode> {
    const [from, to] = [before, name].map((each) => path.join(this.root, each)) as [string, string]
    fs.renameSync(from, to)
    const { localState, objectStore, tenures } = new StorePaths(to)
    for (const file of [localState, objectStore, tenures]) fs.rmSync(file, { force: true })
    return await this.start(name)
  }

  /** As SIGTERM does it; of a node that was taken over, it fails. */
  async stop(name: string): Promise<void> {
    const node = this.node(name)
    node.isClosed = true
    await this.soon(node.store.close()).catch(() => {})
  }

  node(name: string): ScriptedNode {
    const node = this.nodes.get(name)
    if (node === undefined) throw new Error(`Node ${name} has not been started.`)
    return node
  }

  /** A new cell of a node, which all nodes know. */
  newCell(name: string, options: CreateCellOptions = {}): Cell {
    const cell = this.node(name).store.createCell(options)
    for (const node of this.nodes.values()) if (!node.isClosed) this.#shareCells(node)
    return cell
  }

  /** As a planned move does it. */
  async move(from: string, to: string, spans: readonly RangeSpan[] = [ALL]): Promise<void> {
    const end = await this.soon(this.node(from).host.release(spans))
    this.assign(spans.map((span) => ({ ...span, node: to, prefix: this.node(to).ownership.prefix, end })))
    await this.soon(this.node(from).host.forget(spans))
    await this.acquire(to, spans)
  }

  /**
   * As a node does it that takes over from one that is silent. The silent one stays as it is, without the bucket.
   *
   * @param bound what its last beat has promised
   */
  async takeOver(dead: string, to: string): Promise<void> {
    const { ownership } = this.node(dead)
    const raw = this.bucket()
    const scoped = scopedTo(raw, ownership.prefix, () => this.storeId)
    const epoch = this.node(dead).store.core.guard?.epoch ?? 0
    await this.soon(scoped.put(fenceKey(epoch + 1), bufferBody(Buffer.from('{}\n'))))
    const lastLog = (await this.soon(findLastLog(scoped, epoch))) ?? null
    const end = { lastLog, stampBound: ownership.stampBound }
    const spans = spansOf(this.assignment, dead)
    const { prefix } = this.node(to).ownership
    this.assign(
      spans.map(({ lo, hi }) => ({ lo, hi, node: to, prefix, end })),
      [dead],
    )
    await this.acquire(to, spans)
  }

  /** @param except nodes that do not learn of it */
  assign(moves: readonly Move[], except: readonly string[] = []): void {
    this.assignment = afterMoves(this.assignment, moves)
    for (const { name, ownership } of this.nodes.values())
      if (!except.includes(name)) ownership.learn(this.assignment)
  }

  async acquire(name: string, spans: readonly RangeSpan[]): Promise<void> {
    const { host, ownership } = this.node(name)
    await this.soon(host.acquired(spans))
    ownership.acquire(spans)
  }

  /** The cell at a node, with its data. */
  async cellAt(name: string, id: string): Promise<Cell> {
    const cell = this.node(name).store.openCell(id)
    await this.soon(cell.ensureLocal())
    return cell
  }

  /** What the catalog's log does. */
  #shareCells(node: ScriptedNode): void {
    for (const { store, isClosed } of this.nodes.values())
      for (const { deletedAt: _, ...record } of isClosed ? [] : store.cellRecords().cells)
        if (node.store.findCell(record.id) === undefined) node.store.core.registry.insert(record)
  }
}
