import { sealJson } from '../../src/backup/versions/identity/sealed-json.ts'
import { type Clock, delay } from '../../src/base/clock.ts'
import {
  type Assignment,
  afterMoves,
  firstAssignment,
  RANGES,
} from '../../src/catalog/assignment/assignment.ts'
import { parseAssignment } from '../../src/catalog/assignment/parsed-assignment.ts'
import { CellError } from '../../src/errors.ts'
import { Random } from '../../test/support/random.ts'
import { Counts } from './counts.ts'
import { SimulatedObjects } from './simulated-bucket.ts'
import { SimulatedClock } from './simulated-clock.ts'
import { SimulatedNode } from './simulated-node.ts'
import { SimulatedPostgres } from './simulated-postgres.ts'
import type { SimulationSettings, Surroundings } from './surroundings.ts'

/** When something happened to a lost node, in milliseconds of the simulation. */
export interface Loss {
  lostAt: number
  declaredAt?: number
  fencedAt?: number
  assignedAt?: number
  ranges: number
}

/** Nodes with a PostgreSQL and a bucket of their own, on one clock. The ranges are shared out evenly at the start. */
export class SimulatedCluster implements Surroundings {
  readonly settings: SimulationSettings
  readonly clock = new SimulatedClock()
  readonly postgres = new SimulatedPostgres()
  readonly objects = new SimulatedObjects()
  readonly statements = new Counts()
  readonly requests = new Counts()
  readonly calls = new Counts()
  readonly nodes: SimulatedNode[] = []
  readonly losses = new Map<string, Loss>()
  readonly first: Assignment
  /** The two keys of the catalog's `meta` that the cluster begins with. */
  readonly seed: ReadonlyMap<string, string>
  /** Nodes that have ended by themselves: another one has taken over what they had. */
  readonly endedNodes: string[] = []
  readonly #byAddress = new Map<string, SimulatedNode>()
  readonly #random: Random
  readonly #cells: readonly number[]
  #parsed: { text: string; assignment: Assignment } | undefined

  constructor(settings: SimulationSettings) {
    this.settings = settings
    this.#random = new Random(settings.seed)
    const cells = new Array<number>(RANGES).fill(0)
    for (let cell = 0; cell < settings.cells; cell++) {
      const range = this.#random.below(RANGES)
      cells[range] = (cells[range] ?? 0) + 1
    }
    this.#cells = cells
    const ids = Array.from({ length: settings.nodes }, () => this.#newId())
    this.first = assignedTo(ids)
    const text = JSON.stringify(this.first)
    this.seed = new Map([
      ['assignment', text],
      ['assignment_number', String(this.first.n)],
    ])
    this.objects.add(`assign/${String(this.first.n).padStart(10, '0')}`, sealJson(this.first))
    this.objects.stored = (key) => this.#stored(key)
    this.postgres.declaredDead = (id) => {
      const loss = this.losses.get(id)
      if (loss !== undefined) loss.declaredAt ??= this.clock.monotonic()
    }
    for (const id of ids) {
      const node = new SimulatedNode(this, id)
      this.nodes.push(node)
      this.#byAddress.set(node.address, node)
    }
  }

  readonly random = (): number => this.#random.below(2 ** 31) / 2 ** 31

  get alive(): SimulatedNode[] {
    return this.nodes.filter(({ clock }) => !clock.isOff)
  }

  /** All nodes join within a time to live. */
  async start(): Promise<void> {
    const joined = this.nodes.map((node) => node.join(this.random() * this.settings.ttlMs))
    const all = Promise.all(joined)
    let isDone = false
    all.then(
      () => {
        isDone = true
      },
      () => {},
    )
    await this.clock.passUntil(() => isDone, 'all nodes have joined')
    await all
  }

  cellsIn(range: number): number {
    return this.#cells[range] ?? 0
  }

  busyIn(range: number): number {
    return Math.round(this.cellsIn(range) * this.settings.busyShare)
  }

  /** Machines go off at once. */
  lose(nodes: readonly SimulatedNode[]): void {
    for (const node of nodes) {
      node.lose()
      this.losses.set(node.id, { lostAt: this.clock.monotonic(), ranges: node.ownership.ranges.length })
    }
  }

  ended({ id }: { id: string }): void {
    this.endedNodes.push(id)
  }

  /** A request from one machine to another one: it gets no answer from one that is off. */
  async call(from: Clock, address: string, name: string, body: object, timeoutMs: number): Promise<unknown> {
    this.calls.add(name)
    const { peerMs } = this.settings
    await delay(from, peerMs / 2)
    const node = this.#byAddress.get(address)
    if (node === undefined || node.clock.isOff) {
      await delay(from, timeoutMs - peerMs / 2)
      throw new CellError('node_unreachable', `${address} does not answer.`)
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const timer = from.setTimer(
      () => reject(new CellError('node_unreachable', `${address} does not answer.`)),
      timeoutMs,
    )
    node.answer(name, body).then(resolve, reject)
    const answer = await promise.finally(() => timer.cancel())
    await delay(from, peerMs / 2)
    return answer
  }

  /** All nodes read the same text: it is parsed once. */
  parsed(text: string): Assignment {
    if (this.#parsed?.text !== text) {
      const assignment = parseAssignment(JSON.parse(text))
      if (assignment === undefined) throw new Error('The catalog has an assignment that is none.')
      this.#parsed = { text, assignment }
    }
    return this.#parsed.assignment
  }

  #stored(key: string): void {
    const [, fenced] = /^nodes\/([^/]+)\/fence\//.exec(key) ?? []
    const loss = fenced === undefined ? undefined : this.losses.get(fenced)
    if (loss !== undefined) loss.fencedAt ??= this.clock.monotonic()
    if (key.startsWith('assign/')) this.#assigned(key)
  }

  #assigned(key: string): void {
    const text = this.objects.objects.get(key)?.toString() ?? ''
    for (const [id, loss] of this.losses)
      if (loss.assignedAt === undefined && !text.includes(`"node":"${id}","since"`))
        loss.assignedAt = this.clock.monotonic()
  }

  #newId(): string {
    const hex = (digits: number) =>
      Array.from({ length: digits }, () => this.#random.below(16).toString(16)).join('')
    return `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(12)}`
  }
}

/** Neighbours together; each node has had one before it. */
function assignedTo(ids: readonly string[]): Assignment {
  const [firstId = ''] = ids
  const end = { lastLog: { epoch: 1, number: 1 }, stampBound: 0 }
  const before = firstAssignment('before', 'nodes/before/')
  const moves = ids.map((node, i) => ({
    lo: Math.round((i * RANGES) / ids.length),
    hi: Math.round(((i + 1) * RANGES) / ids.length) - 1,
    node,
    prefix: `nodes/${node}/`,
    end,
  }))
  return afterMoves(before, firstId === '' ? [] : moves)
}
