import { randomUUID } from 'node:crypto'
import { type BackOff, backOffMs } from '../../base/async/back-off.ts'
import { type Clock, delay } from '../../base/clock.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import type { CatalogWriter, Tried } from '../../catalog/catalog-writer.ts'
import type { SharedRow, SharedTables } from '../../catalog/shared-rows.ts'
import { CellError, isCellError } from '../../errors.ts'
import {
  append,
  type Head,
  idOf,
  ROWS_AT_ONCE,
  replaceAll,
  rowsAfter,
  selectHead,
  selectRowsAfter,
  selectVersionsAfter,
} from './catalog-log.ts'
import type { Database } from './database.ts'
import { refused } from './postgres-errors.ts'
import type { Queries } from './queries.ts'
import { type LoggedRow, type LoggedVersion, Replica } from './replica.ts'

const SHARED: SharedTables = {
  tables: ['accounts', 'api_keys', 'cells', 'idempotency'],
  metaKeys: ['assignment', 'assignment_number', 'first_key'],
}

/** Changes that one transaction carries at most. */
const CHANGES_AT_ONCE = 100
/** How long a change is tried while PostgreSQL does not serve, in milliseconds. */
const PATIENCE_MS = 5_000
/** Each batch costs the catalog a commit, in which all of its indexes change. */
const ROWS_READ_AT_ONCE = 20_000
/**
 * Once all have handed in, the node with the least id lets changes begin again, and looks at the whole bucket before. Another one does it
 * if that has not happened for so long, by chance up to twice: else a thousand nodes would look at a thousand others each.
 */
const REOPENED_WITHIN_MS = 60_000
const TRIES: BackOff = { minMs: 20, maxMs: 500 }

export interface PostgresCatalogParts {
  database: Database
  catalog: Catalog
  /** Of this node: its row in `nodes` says that it may write. */
  nodeId: string
  clock: Clock
  random: () => number
  /**
   * Awaited for each change after it was committed, and before its caller is answered; what it throws is what the caller gets.
   *
   * @param version the change is in every catalog that has come as far
   */
  committed?(version: number, rows: readonly SharedRow[]): Promise<void>
  /**
   * Awaited once all nodes have handed in what a PostgreSQL of before may have told them, and before the next change. It throws
   * if another node may know more.
   */
  reopening?(): Promise<void>
}

/** A change that waits for its turn. */
interface Waiting {
  run: () => unknown
  settle: (outcome: Promise<unknown>) => void
}

/** What came of the changes that share a transaction. */
interface Trial {
  /** The change before it. */
  base: number
  version: LoggedVersion
  outcomes: Tried[]
  rows: LoggedRow[]
}

interface Work {
  changes: readonly (() => unknown)[]
  /** Absent before the first time that they could be run. */
  trial: Trial | undefined
}

/** The log in PostgreSQL is not known to be whole. */
const UNRECONCILED = 'It was restarted or replaced, and not all nodes have told it yet what it may have lost.'

/**
 * A node's catalog as part of a cluster's. All changes of all nodes are one log in PostgreSQL: each is made on the newest state, under
 * the lock of the log's head. Each node takes in the others' changes, in their order.
 */
export class PostgresCatalog implements CatalogWriter {
  readonly #parts: PostgresCatalogParts
  readonly #database: Database
  readonly #replica: Replica
  readonly #head: string
  readonly #waiting: Waiting[] = []
  #writing = false
  #fetching: Promise<void> | undefined
  #fetchingNext: Promise<void> | undefined
  /** All have handed in to a server: when it is this node's turn to let changes begin again, by the monotonic clock. */
  #turn: { server: string; at: number } | undefined

  /** From here on the catalog is changed through this alone. It can be read, as it was when it last took part. */
  constructor(parts: PostgresCatalogParts) {
    this.#parts = parts
    this.#database = parts.database
    this.#replica = new Replica(parts.catalog)
    this.#head = selectHead(parts.database.incarnation)
    if (!/^[\w-]+$/.test(parts.nodeId)) throw new CellError('internal', 'The id of a node is a UUID.')
    parts.catalog.share(SHARED, this)
  }

  /** The newest change that this node's catalog has. */
  get version(): number {
    return this.#replica.version
  }

  /** Undefined if the catalog is not as a cluster's change has left it. */
  get #newest(): LoggedVersion | undefined {
    const { version } = this
    const id = this.#replica.idOf(version)
    return id === undefined ? undefined : { version, id }
  }

  /**
   * Makes this catalog that of a new cluster; one that has a catalog keeps it. A catalog that a cluster had goes on with its numbers, so
   * that nodes whose catalogs are as new need not load anything.
   *
   * @returns whether it was the first
   * @throws `invalid_setting` if the cluster belongs to another store, or has a catalog that this version does not know;
   * `cluster_unavailable`
   */
  async seed(): Promise<boolean> {
    const { catalog } = this.#parts
    const seeded = await this.#database.transaction(
      [`${this.#head} FOR UPDATE`],
      async (transaction, opened) => {
        const head = headOf(opened)
        if (head.store_id !== null) {
          this.#assertKnown(head)
          await transaction.query(
            'UPDATE cellstore.cluster SET catalog_schema = $1 WHERE catalog_schema < $1 AND id = 1',
            [schemaOf(catalog)],
          )
          return undefined
        }
        const version = this.#newest ?? { version: head.version + 1, id: randomUUID() }
        await replaceAll(transaction, catalog.sharedRows(), version)
        await transaction.query(
          'UPDATE cellstore.cluster SET store_id = $1, catalog_schema = $2, incarnation = $3 WHERE id = 1',
          [catalog.storeId, schemaOf(catalog), head.own],
        )
        return version
      },
    )
    if (seeded !== undefined) await this.#replica.loaded(seeded)
    return seeded !== undefined
  }

  write<T>(run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({
        run,
        settle: (outcome) => void outcome.then((value) => resolve(value as T), reject),
      })
      if (!this.#writing) void this.#writeAll()
    })
  }

  /**
   * Takes in what other nodes have changed: the log as it is at the time of the call, or later. Calls that come at once share one.
   *
   * @param atLeast it does nothing if the catalog has this version
   * @throws `cluster_unavailable`; `invalid_setting` as {@link seed}; what keeps the catalog from being changed
   */
  catchUp(atLeast?: number): Promise<void> {
    if (atLeast !== undefined && atLeast <= this.version) return Promise.resolve()
    if (this.#fetching === undefined) return this.#fetch()
    // The one that is under way may have looked before.
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
    const [head] = await this.#database.query<Head>(this.#head)
    if (head === undefined) throw unavailable('It has no schema.')
    this.#assertKnown(head)
    if (head.incarnation !== head.own) await this.#handIn()
    const { version, isOfThisHistory } = await this.#compare()
    if (!isOfThisHistory) await this.#load(version)
    else if (version > this.version) await this.#takeInNewer(version)
  }

  /** Where the log ends, and whether what the catalog has is a beginning of it, whose following changes are all known. */
  async #compare(): Promise<{ version: number; isOfThisHistory: boolean }> {
    const { version } = this.#replica
    const [found] = await this.#database.query<Head & { id: string | null }>(
      `SELECT head.*, (SELECT id FROM cellstore.versions WHERE version = $1) AS id FROM (${this.#head}) AS head`,
      [version],
    )
    // What it has lost comes back once all have handed theirs in.
    if (found === undefined || found.incarnation !== found.own) throw unavailable(UNRECONCILED)
    const isOfThisHistory = version > 0 && version >= found.floor && found.id === this.#replica.idOf(version)
    return { version: found.version, isOfThisHistory }
  }

  async #takeInNewer(upTo: number): Promise<void> {
    const after = this.version
    const rows: LoggedRow[] = []
    for await (const page of this.#rowsAfter(after)) rows.push(...page)
    const newest = Math.max(rows.at(-1)?.version ?? 0, upTo)
    await this.#replica.absorb({ rows, versions: await this.#versions(after, newest) })
  }

  async #load(upTo: number): Promise<void> {
    let version = upTo
    let isFirst = true
    for await (const page of this.#rowsAfter(0)) {
      await this.#replica.load(page, isFirst)
      isFirst = false
      version = Math.max(page.at(-1)?.version ?? 0, version)
    }
    const [newest] = await this.#versions(version - 1, version)
    if (newest !== undefined) await this.#replica.loaded(newest)
  }

  /**
   * Reads on until there is no more: all that has a version up to that of the last row is among the rows, or was replaced since by
   * one that is.
   */
  async *#rowsAfter(version: number): AsyncGenerator<LoggedRow[]> {
    let after: Omit<LoggedRow, 'content'> = { version: version + 1, table: '', key: '' }
    for (;;) {
      const rows = await rowsAfter(this.#database, after, ROWS_READ_AT_ONCE)
      yield rows
      after = rows.at(-1) ?? after
      if (rows.length < ROWS_READ_AT_ONCE) return
    }
  }

  async #versions(after: number, upTo: number): Promise<LoggedVersion[]> {
    const versions = await this.#database.query<LoggedVersion>(selectVersionsAfter(after))
    return versions.filter(({ version }) => version <= upTo)
  }

  /** Gives PostgreSQL back what it has lost and this catalog has; the last node that does so lets changes begin again. */
  async #handIn(): Promise<void> {
    const { nodeId, clock, random, reopening } = this.#parts
    const handed = await this.#lockedHead(async (transaction, head) => {
      if (head.incarnation === head.own) return undefined
      await this.#giveBack(transaction, head)
      await transaction.query(
        "UPDATE cellstore.nodes SET handed_in = $1 WHERE id = $2 AND state IN ('alive', 'leaving')",
        [head.own, nodeId],
      )
      const [nodes] = await transaction.query<{ first: string; all: boolean }>(
        'SELECT min(id) AS first, bool_and(handed_in IS NOT DISTINCT FROM $1) AS all FROM cellstore.nodes',
        [head.own],
      )
      return nodes?.all === true ? { server: head.own, isFirst: nodes.first === nodeId } : undefined
    })
    if (handed === undefined) return
    const { server, isFirst } = handed
    const now = clock.monotonic()
    if (isFirst || this.#turn?.server !== server)
      this.#turn = { server, at: isFirst ? now : now + REOPENED_WITHIN_MS * (1 + random()) }
    if (now < this.#turn.at) return
    await reopening?.()
    await this.#lockedHead(async (transaction, head) => {
      if (!(await allHandedIn(transaction, head.own))) return
      await transaction.query('UPDATE cellstore.cluster SET incarnation = $1 WHERE id = 1', [head.own])
    })
  }

  async #giveBack(transaction: Queries, { version, floor }: Head): Promise<void> {
    const { catalog } = this.#parts
    if (version >= this.version) return
    const known = this.#replica.idOf(version)
    const end = this.#replica.endAfter(version)
    if (end === undefined || known === undefined) {
      // It has lost more than this node remembers one by one. If even its floor is older, the whole catalog replaces it.
      const id = this.#replica.idOf(this.version)
      if (id !== undefined && floor <= this.version)
        await replaceAll(transaction, catalog.sharedRows(), { version: this.version, id })
    } else if (known === (await idOf(transaction, version))) await append(transaction, end)
  }

  async #lockedHead<T>(run: (transaction: Queries, head: Head) => Promise<T>): Promise<T> {
    return await this.#database.transaction([`${this.#head} FOR UPDATE`], (transaction, opened) =>
      run(transaction, headOf(opened)),
    )
  }

  #assertKnown({ store_id, catalog_schema }: Head): void {
    const { catalog } = this.#parts
    if (store_id !== catalog.storeId) {
      throw refused(
        `The cluster's PostgreSQL belongs to the store ${store_id ?? '(none yet)'}, and this node to ${catalog.storeId}. Give each cluster a database of its own.`,
      )
    }
    if (catalog_schema <= schemaOf(catalog)) return
    throw refused(
      'The catalog of the cluster was made by a newer cellstore. Install the version of the other nodes.',
    )
  }

  async #writeAll(): Promise<void> {
    this.#writing = true
    // Changes that come in the same turn share a transaction.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const changes = this.#waiting.splice(0, CHANGES_AT_ONCE)
      try {
        const { outcomes, version } = await this.#carryOut(changes.map(({ run }) => run))
        for (const [i, { settle }] of changes.entries())
          settle(this.#outcome(outcomes[i] as Tried, version.version))
      } catch (error) {
        // Those that came meanwhile have waited for PostgreSQL, too.
        const failed = isCellError(error, 'cluster_unavailable') ? this.#waiting.splice(0) : []
        for (const { settle } of [...changes, ...failed]) settle(Promise.reject(error))
      }
    }
    this.#writing = false
  }

  async #outcome(tried: Tried, version: number): Promise<unknown> {
    if ('error' in tried) throw tried.error
    if (tried.rows.length > 0) await this.#parts.committed?.(version, tried.rows)
    return tried.value
  }

  /** Tries again while PostgreSQL does not serve. */
  async #carryOut(changes: readonly (() => unknown)[]): Promise<Trial> {
    const { clock } = this.#parts
    const deadline = clock.monotonic() + PATIENCE_MS
    const work: Work = { changes, trial: undefined }
    for (let failures = 0; ; failures++) {
      const found = await this.#attempt(work).catch(orUnavailable)
      const { trial } = work
      if (found === 'done' && trial !== undefined) {
        if (trial.rows.length > 0) await this.#replica.absorb({ rows: trial.rows, versions: [trial.version] })
        return trial
      }
      if (clock.monotonic() > deadline) {
        if (trial !== undefined)
          throw unavailable('Whether the change was made is not known: look before you repeat it.')
        throw typeof found === 'string' ? unavailable(UNRECONCILED) : found
      }
      if (typeof found === 'string') await this.catchUp().catch(orUnavailable)
      if (found !== 'behind') await delay(clock, backOffMs(failures, TRIES))
    }
  }

  async #attempt(work: Work): Promise<'done' | 'behind' | 'unreconciled'> {
    const { nodeId } = this.#parts
    const mine = this.version
    const opening = [
      `${this.#head} FOR UPDATE`,
      `SELECT state FROM cellstore.nodes WHERE id = '${nodeId}'`,
      selectVersionsAfter(Math.min(mine, work.trial?.base ?? mine) - 1),
      selectRowsAfter(mine),
    ]
    return await this.#database.transaction(opening, async (transaction, opened) => {
      const head = headOf(opened)
      const [, nodes, versions, rows] = opened as [Head[], { state: string }[], LoggedVersion[], LoggedRow[]]
      if (head.incarnation !== head.own) return 'unreconciled'
      assertMayWrite(nodes)
      const known = versions.find(({ version }) => version === mine)?.id
      if (mine === 0 || known !== this.#replica.idOf(mine) || rows.length > ROWS_AT_ONCE) return 'behind'
      await this.#replica.absorb({ rows, versions })
      // The answer of a COMMIT was lost.
      if (versions.some(({ id }) => id === work.trial?.version.id)) return 'done'
      // While nobody else has changed anything, what came of them still holds.
      if (work.trial?.base !== head.version) work.trial = this.#try(work, head)
      const { rows: changed, version } = work.trial
      if (changed.length > 0) await append(transaction, { rows: changed, versions: [version] })
      return 'done'
    })
  }

  /** Runs the changes, again if there was a trial that was not committed; what has thrown then is not run again. */
  #try({ changes, trial }: Work, { version: base }: Head): Trial {
    const isRefused = (i: number) => trial !== undefined && 'error' in (trial.outcomes[i] as Tried)
    const tried = this.#parts.catalog.trial(changes.filter((_, i) => !isRefused(i)))
    const outcomes = changes.map((_, i) => (isRefused(i) ? trial?.outcomes[i] : tried.shift()) as Tried)
    const version = { version: base + 1, id: randomUUID() }
    const newest = new Map<string, LoggedRow>()
    for (const each of outcomes) {
      if ('error' in each) continue
      for (const row of each.rows) newest.set(`${row.table} ${row.key}`, { ...row, version: version.version })
    }
    return { base, version, outcomes, rows: [...newest.values()] }
  }
}

async function allHandedIn(transaction: Queries, own: string): Promise<boolean> {
  const [missing] = await transaction.query<{ count: number }>(
    'SELECT count(*) FROM cellstore.nodes WHERE handed_in IS DISTINCT FROM $1',
    [own],
  )
  return missing?.count === 0
}

/** @throws `taken_over` if the node is no member any more */
function assertMayWrite([node]: readonly { state: string }[]): void {
  if (node === undefined) throw unavailable('It does not know this node.')
  if (node.state === 'dead')
    throw new CellError('taken_over', 'Other nodes have taken over what this one had.')
}

function headOf([heads]: readonly object[][]): Head {
  const [head] = (heads ?? []) as Head[]
  if (head === undefined) throw unavailable('It has no schema.')
  return head
}

function schemaOf(catalog: Catalog): number {
  return Number(catalog.meta('schema_version'))
}

/** @throws every other error */
function orUnavailable(error: unknown): CellError {
  if (isCellError(error, 'cluster_unavailable')) return error
  throw error
}

function unavailable(why: string): CellError {
  return new CellError('cluster_unavailable', `The cluster's PostgreSQL does not serve now. ${why}`)
}
