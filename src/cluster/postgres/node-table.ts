import type {
  Beat,
  HeadSeen,
  NodeRow,
  NodeState,
  NodeTable,
  TakenRow,
  WatchedBeat,
} from '../membership/node-table.ts'
import type { Database } from './database.ts'

const TAKEN_KEPT = 20

interface StoredNode {
  id: string
  address: string
  prefix: string
  epoch: number
  counter: number
  state: NodeState
  seen_version: number
  stamp_bound: number
  busy_cells: number
  started_at: number
}

interface StoredHead {
  version: number
  incarnation: string | null
  server: string
}

/** The table `nodes`. Each change is one statement that names what it expects. */
export class PostgresNodeTable implements NodeTable {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async join(row: Parameters<NodeTable['join']>[0]): ReturnType<NodeTable['join']> {
    const { id, address, prefix, epoch, stampBound, startedAt } = row
    const [joined] = await this.#database.query<{ stamp_bound: number }>(
      `INSERT INTO cellstore.nodes AS known (id, address, prefix, epoch, state, stamp_bound, started_at)
       VALUES ($1, $2, $3, $4, 'alive', $5, $6)
       ON CONFLICT (id) DO UPDATE SET address = excluded.address, prefix = excluded.prefix, epoch = excluded.epoch,
         counter = 0, state = 'alive', seen_version = 0, handed_in = NULL, started_at = excluded.started_at
       WHERE known.state <> 'dead' AND known.epoch < excluded.epoch
       RETURNING stamp_bound`,
      [id, address, prefix, epoch, stampBound, startedAt],
    )
    return joined && { stampBound: joined.stamp_bound }
  }

  async beat({
    id,
    epoch,
    counter,
    seenVersion,
    stampBound,
    busyCells,
    backedUpTo,
  }: Beat): Promise<HeadSeen | undefined> {
    const [answer] = await this.#database.query<StoredHead & { beaten: boolean }>(
      `WITH beaten AS (
         UPDATE cellstore.nodes SET counter = $3, seen_version = $4, stamp_bound = $5, busy_cells = $6,
           backed_up_to = coalesce($7, backed_up_to)
         WHERE id = $1 AND epoch = $2 AND state <> 'dead' RETURNING 1
       )
       SELECT ${this.#head}, EXISTS (SELECT 1 FROM beaten) AS beaten FROM cellstore.cluster WHERE id = 1`,
      [id, epoch, counter, seenVersion, stampBound, busyCells, backedUpTo ?? null],
    )
    return answer?.beaten === true ? headOf(answer) : undefined
  }

  async list(): Promise<{ nodes: NodeRow[]; head: HeadSeen }> {
    // One statement: the head and the nodes are from one server. Without nodes there is still a head.
    const rows = await this.#database.query<StoredHead & StoredNode>(
      `SELECT ${this.#head}, n.id, n.address, n.prefix, n.epoch, n.counter, n.state, n.seen_version, n.stamp_bound,
         n.busy_cells, n.started_at
       FROM cellstore.cluster AS c LEFT JOIN cellstore.nodes AS n ON true WHERE c.id = 1 ORDER BY n.id`,
    )
    const head = rows[0] === undefined ? { version: 0, incarnation: '', server: '' } : headOf(rows[0])
    return { nodes: rows.filter(({ id }) => id !== null).map(nodeOf), head }
  }

  async declareDead({ id, epoch, counter, server }: WatchedBeat): Promise<boolean> {
    const declared = await this.#database.query(
      `UPDATE cellstore.nodes SET state = 'dead'
       WHERE id = $1 AND epoch = $2 AND counter = $3 AND state <> 'dead' AND (${this.#database.incarnation}) = $4
       RETURNING id`,
      [id, epoch, counter, server],
    )
    return declared.length > 0
  }

  async setLeaving(id: string, epoch: number, leaving: boolean): Promise<void> {
    await this.#database.query(
      "UPDATE cellstore.nodes SET state = $3 WHERE id = $1 AND epoch = $2 AND state <> 'dead'",
      [id, epoch, leaving ? 'leaving' : 'alive'],
    )
  }

  async remove(id: string, epoch: number, takenAt?: number): Promise<void> {
    const removes = 'DELETE FROM cellstore.nodes WHERE id = $1 AND epoch = $2'
    if (takenAt === undefined) {
      await this.#database.query(removes, [id, epoch])
      return
    }
    // A second taker of one node changes nothing: what it had was taken before. A time by a clock that was ahead says nothing.
    await this.#database.query(
      `WITH removed AS (${removes} RETURNING backed_up_to),
       old AS (DELETE FROM cellstore.taken_over WHERE at < (
         SELECT min(at) FROM (SELECT at FROM cellstore.taken_over ORDER BY at DESC LIMIT ${TAKEN_KEPT}) AS kept
       ))
       INSERT INTO cellstore.taken_over (node, at, backed_up_to)
         VALUES ($1, $3, (SELECT backed_up_to FROM removed WHERE backed_up_to <= $3))
       ON CONFLICT DO NOTHING`,
      [id, epoch, takenAt],
    )
  }

  async taken(): Promise<TakenRow[]> {
    return await this.#database.query<TakenRow>(
      `SELECT node AS id, at, backed_up_to AS "backedUpTo" FROM cellstore.taken_over ORDER BY at DESC LIMIT ${TAKEN_KEPT}`,
    )
  }

  /** Columns of `cluster`. */
  get #head(): string {
    return `version, incarnation, (${this.#database.incarnation}) AS server`
  }
}

function headOf({ version, incarnation, server }: StoredHead): HeadSeen {
  return { version, incarnation: incarnation ?? server, server }
}

function nodeOf(row: StoredNode): NodeRow {
  const { id, address, prefix, epoch, counter, state } = row
  return {
    id,
    address,
    prefix,
    epoch,
    counter,
    state,
    seenVersion: row.seen_version,
    stampBound: row.stamp_bound,
    busyCells: row.busy_cells,
    startedAt: row.started_at,
  }
}
