import { type Clock, delay } from '../../src/base/clock.ts'
import type { NodeTable } from '../../src/cluster/membership/node-table.ts'
import { CellError } from '../../src/errors.ts'
import { MemoryNodeTable } from '../../test/support/cluster/memory-node-table.ts'
import type { Counts } from './counts.ts'

/** `Database` gives a statement up after so long. */
const DEADLINE_MS = 5_000

/** Of the catalog only what nodes tell each other through it: two keys of `meta`, as of a version. */
export interface LoggedMeta {
  version: number
  key: string
  value: string
}

/** What all machines see of PostgreSQL: the real rules of the table `nodes`, and the catalog's log. */
export class SimulatedPostgres {
  readonly table = new MemoryNodeTable()
  readonly log: LoggedMeta[] = []
  readonly handedIn = new Map<string, string>()
  /** `silent`: no answer comes. `refusing`: its port is closed. */
  outage: 'silent' | 'refusing' | undefined
  /** The lock of the log's head. */
  #lock: Promise<unknown> = Promise.resolve()
  declaredDead: (id: string) => void = () => {}

  get version(): number {
    return this.table.version
  }

  /** Another server takes its place. It has forgotten nothing, but nobody can know that. */
  restart(): void {
    this.table.server = `server-${Number(this.table.server.split('-')[1]) + 1}`
  }

  async locked<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#lock.then(run)
    this.#lock = turn.catch(() => {})
    return await turn
  }
}

/** PostgreSQL as one machine reaches it: each statement takes its time, and is counted with the rows of its answer. */
export class SimulatedConnection implements NodeTable {
  readonly postgres: SimulatedPostgres
  readonly #clock: Clock
  readonly #latencyMs: number
  readonly #statements: Counts

  constructor(postgres: SimulatedPostgres, clock: Clock, latencyMs: number, statements: Counts) {
    this.postgres = postgres
    this.#clock = clock
    this.#latencyMs = latencyMs
    this.#statements = statements
  }

  join(row: Parameters<NodeTable['join']>[0]): ReturnType<NodeTable['join']> {
    return this.statement('join', () => this.postgres.table.join(row))
  }

  beat(beat: Parameters<NodeTable['beat']>[0]): ReturnType<NodeTable['beat']> {
    return this.statement('beat', () => this.postgres.table.beat(beat))
  }

  async list(): ReturnType<NodeTable['list']> {
    const listed = await this.statement('list', () => this.postgres.table.list())
    this.#statements.add('rows of nodes', listed.nodes.length)
    return listed
  }

  async declareDead(watched: Parameters<NodeTable['declareDead']>[0]): Promise<boolean> {
    const isDead = await this.statement('declare dead', () => this.postgres.table.declareDead(watched))
    if (isDead) this.postgres.declaredDead(watched.id)
    return isDead
  }

  setLeaving(...args: Parameters<NodeTable['setLeaving']>): Promise<void> {
    return this.statement('set leaving', () => this.postgres.table.setLeaving(...args))
  }

  remove(...args: Parameters<NodeTable['remove']>): Promise<void> {
    return this.statement('remove', () => this.postgres.table.remove(...args))
  }

  taken(): ReturnType<NodeTable['taken']> {
    return this.statement('taken', () => this.postgres.table.taken())
  }

  /** One round trip. @param statements that go with it @throws `cluster_unavailable` */
  async statement<T>(kind: string, run: () => T | Promise<T>, statements = 1): Promise<T> {
    this.#statements.add(kind, statements)
    await delay(this.#clock, this.#latencyMs / 2)
    if (this.postgres.outage === 'silent') await delay(this.#clock, DEADLINE_MS - this.#latencyMs / 2)
    if (this.postgres.outage !== undefined)
      throw new CellError('cluster_unavailable', "The cluster's PostgreSQL does not answer.")
    const value = await run()
    await delay(this.#clock, this.#latencyMs / 2)
    return value
  }

  answered(rows: string, count: number): void {
    this.#statements.add(rows, count)
  }
}
