import { type BackOff, backOffMs } from '../../src/base/async/back-off.ts'
import { Emitter } from '../../src/base/async/emitter.ts'
import { type Clock, delay } from '../../src/base/clock.ts'
import { CellError, isCellError } from '../../src/errors.ts'
import type { LoggedMeta, SimulatedConnection } from './simulated-postgres.ts'

const PATIENCE_MS = 5_000
const REOPENED_WITHIN_MS = 60_000
const TRIES: BackOff = { minMs: 20, maxMs: 500 }

/**
 * A node's copy of the catalog. `PostgresCatalog` is not run here, because it needs SQLite and SQL; this sends as many statements as
 * that does, at the same times and under the same lock, and keeps two keys of `meta`.
 */
export class SimulatedCatalog {
  readonly changed = new Emitter()
  readonly #connection: SimulatedConnection
  readonly #nodeId: string
  readonly #clock: Clock
  readonly #random: () => number
  readonly #reopening: () => Promise<void>
  readonly #meta = new Map<string, string>()
  #version: number
  #fetching: Promise<void> | undefined
  #fetchingNext: Promise<void> | undefined
  #turn: { server: string; at: number } | undefined
  /** What a change that is being tried has set. */
  #trial: Map<string, string> | undefined

  constructor(
    connection: SimulatedConnection,
    nodeId: string,
    clock: Clock,
    random: () => number,
    reopening: () => Promise<void>,
    seed: ReadonlyMap<string, string>,
  ) {
    this.#connection = connection
    this.#nodeId = nodeId
    this.#clock = clock
    this.#random = random
    this.#reopening = reopening
    this.#meta = new Map(seed)
    this.#version = connection.postgres.version
  }

  get version(): number {
    return this.#version
  }

  meta(key: string): string | undefined {
    return this.#trial?.get(key) ?? this.#meta.get(key)
  }

  setMeta(key: string, value: string): void {
    if (this.#trial === undefined) throw new Error('A change is tried first.')
    this.#trial.set(key, value)
  }

  async durably<T>(run: () => T): Promise<T> {
    const deadline = this.#clock.monotonic() + PATIENCE_MS
    for (let failures = 0; ; failures++) {
      try {
        return await this.#write(run)
      } catch (error) {
        if (!isCellError(error, 'cluster_unavailable') || this.#clock.monotonic() > deadline) throw error
      }
      await this.catchUp().catch(() => {})
      await delay(this.#clock, backOffMs(failures, TRIES))
    }
  }

  catchUp(atLeast?: number): Promise<void> {
    if (atLeast !== undefined && atLeast <= this.version) return Promise.resolve()
    if (this.#fetching === undefined) return this.#fetch()
    this.#fetchingNext ??= this.#fetching.then(
      () => this.#fetch(),
      () => this.#fetch(),
    )
    return this.#fetchingNext
  }

  #fetch(): Promise<void> {
    this.#fetchingNext = undefined
    const fetching = this.#takeIn().finally(() => {
      if (this.#fetching === fetching) this.#fetching = undefined
    })
    this.#fetching = fetching
    return fetching
  }

  async #takeIn(): Promise<void> {
    const { postgres } = this.#connection
    const isWhole = await this.#connection.statement('head', () => this.#isWhole)
    if (!isWhole) await this.#handIn()
    const version = await this.#connection.statement('compare', () => {
      if (!this.#isWhole) throw unreconciled()
      return postgres.version
    })
    if (version <= this.#version) return
    const rows = await this.#connection.statement('rows', () => this.#newer())
    await this.#connection.statement('versions', () => {})
    this.#absorb(rows, version)
  }

  get #isWhole(): boolean {
    const { incarnation, server } = this.#connection.postgres.table
    return incarnation === server
  }

  #newer(): LoggedMeta[] {
    const newest = new Map<string, LoggedMeta>()
    for (const each of this.#connection.postgres.log)
      if (each.version > this.#version) newest.set(each.key, each)
    this.#connection.answered(
      'bytes of the catalog',
      [...newest.values()].reduce((sum, { value }) => sum + value.length, 0),
    )
    return [...newest.values()]
  }

  #absorb(rows: readonly LoggedMeta[], version: number): void {
    for (const row of rows) if (row.version > this.#version) this.#meta.set(row.key, row.value)
    if (version <= this.#version) return
    this.#version = version
    this.changed.emit()
  }

  async #write<T>(run: () => T): Promise<T> {
    const { postgres } = this.#connection
    return await postgres.locked(async () => {
      const rows = await this.#connection.statement('change', () => this.#newer(), 5)
      if (!this.#isWhole) throw unreconciled()
      this.#absorb(rows, postgres.version)
      this.#trial = new Map()
      const value = run()
      const changed = [...this.#trial]
      this.#trial = undefined
      if (changed.length > 0) await this.#connection.statement('change', () => {})
      await this.#connection.statement('change', () => {
        if (changed.length > 0) postgres.table.version++
        for (const [key, text] of changed) postgres.log.push({ version: postgres.version, key, value: text })
      })
      this.#absorb(
        changed.map(([key, text]) => ({ version: postgres.version, key, value: text })),
        postgres.version,
      )
      return value
    })
  }

  async #handIn(): Promise<void> {
    const { postgres } = this.#connection
    const { table, handedIn } = postgres
    const { server } = table
    const allHandedIn = () => [...table.rows.keys()].every((id) => handedIn.get(id) === server)
    const isComplete = await postgres.locked(async () => {
      await this.#connection.statement('hand in', () => {}, 2)
      await this.#connection.statement('hand in', () => handedIn.set(this.#nodeId, server))
      return await this.#connection.statement('hand in', allHandedIn, 2)
    })
    if (!isComplete) return
    const isFirst = [...table.rows.keys()].every((id) => id >= this.#nodeId)
    const now = this.#clock.monotonic()
    if (isFirst || this.#turn?.server !== server)
      this.#turn = { server, at: isFirst ? now : now + REOPENED_WITHIN_MS * (1 + this.#random()) }
    if (now < this.#turn.at) return
    await this.#reopening()
    await postgres.locked(async () => {
      await this.#connection.statement('hand in', () => {}, 2)
      await this.#connection.statement(
        'hand in',
        () => {
          if (allHandedIn()) table.incarnation = table.server
        },
        3,
      )
    })
  }
}

function unreconciled(): CellError {
  return new CellError('cluster_unavailable', 'Not all nodes have told PostgreSQL yet what it may have lost.')
}
