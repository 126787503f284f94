/**
 * All that exists in the model: the bucket, PostgreSQL, the nodes, and the requests under way. Times are whole ticks. A stop
 * of a process needs no state of its own: any process may take no step for as long as it likes.
 */
export interface World {
  bucket: Bucket
  pg: Postgres
  /** What PostgreSQL goes back to when it forgets. */
  saved: Postgres | null
  nodes: Node[]
  /** Requests that the bucket has not carried out yet. Nobody can take them back, and they outlive their sender. */
  network: Request[]
  /** By range: the longest history that a client can have read, or knows from acknowledgements. */
  exposed: (readonly number[])[]
  /** Changes of the catalog that revoked a key, and were answered with 200. */
  revoked: number[]
  /** Unique values for appends and changes. */
  lastValue: number
  left: Budget
}

/** Epochs are positions in these lists. */
export interface Bucket {
  /** Whether `ended/<epoch>` is there. `fence/<epoch>` is there for each epoch of this list. */
  ended: boolean[]
  /** Object number n is at n - 1; null once it was removed. */
  logs: (LogObject | null)[][]
  versions: Version[][]
  assigns: Assign[]
  /** The newest catalog that counts. */
  catalog: readonly number[]
}

export interface LogObject {
  readonly range: number
  readonly value: number
}

/** The whole content of a range, with what the log has up to an object. */
export interface Version {
  readonly range: number
  readonly content: readonly number[]
  readonly upTo: number
}

/** By range. */
export interface Assign {
  readonly owner: readonly number[]
  readonly before: readonly (readonly Tenure[])[]
}

/** A tenure that is over: what its epoch has beyond these two counts is void. */
export interface Tenure {
  readonly epoch: number
  readonly logs: number
  readonly versions: number
}

export interface Postgres {
  incarnation: number
  /** What the head says. If it is another one than PostgreSQL's, nobody changes the catalog. */
  headIncarnation: number
  /** The catalog: its version is the length. */
  changes: readonly number[]
  /** By epoch; null if there is none. */
  rows: (Row | null)[]
}

export interface Row {
  state: 'alive' | 'dead' | 'gone'
  counter: number
  /** The incarnation for which it has handed in its tail. */
  handedIn: number
}

/** Ticks since an event, by each of a node's clocks. */
export type Elapsed = readonly [monotonic: number, wall: number, boot: number]

export interface Node {
  epoch: number
  up: boolean
  /** It has seen `ended/<epoch>`. */
  ended: boolean
  /** It has caught up with the catalog, and may serve. */
  joined: boolean
  incarnation: number
  /** Whether beats count: a clean look has followed the newest incarnation. */
  trusted: boolean
  /** It always has a lease, as long as its fence is not there. So nobody takes it over. */
  isSure: boolean
  /** Since the start of the last beat and look that count. */
  pgLease: Elapsed | null
  bucketLease: Elapsed | null
  beat: { since: Elapsed; saw: { ok: boolean; incarnation: number } | null } | null
  look: Look | null
  /** How many `assign/<n>` it knows. */
  knows: number
  /** By range: what it has and counts; null if it does not serve it. */
  data: (readonly number[] | null)[]
  put: (LogObject & { number: number }) | null
  version: { range: number; number: number; upTo: number } | null
  /** By range: up to which log object a version that counts has everything. */
  covered: number[]
  move: Move | null
  takeOver: TakeOver | null
  /** Its replica of the catalog. */
  catalog: readonly number[]
  revocation: { change: number; version: number; waitsFor: number[] | null } | null
  /** Only without the rule `lease after the work`: a request that has passed the check of the lease. */
  admitted: boolean
}

export interface Look {
  since: Elapsed
  saw: 'clean' | 'ended' | null
  /** What the node knew, and which of its PUTs had been answered, when the look began. */
  incarnation: number
  put: number
  version: number
}

export interface Move {
  range: number
  to: number
  phase: 'stopped' | 'sent' | 'taken back'
  number: number
}

export interface TakeOver {
  epoch: number
  phase: 'asked' | 'watched' | 'declared' | 'fencing' | 'fenced' | 'confirmed'
  incarnation: number
  counter: number
  /** Since the counter was seen first; then, since the fence was put. */
  waited: Elapsed
  /** The log and the versions that were found. */
  found: { logs: number; versions: number } | null
  /** The `assign/<n>` that it has put last. */
  number: number
}

export type Request =
  | { put: 'log'; epoch: number; number: number; object: LogObject }
  | { put: 'version'; epoch: number; version: Version }
  | { put: 'assign'; number: number; assign: Assign }
  | { remove: 'log'; epoch: number; numbers: number[] }

/** How often each of these may still happen. */
export interface Budget {
  ticks: number
  beats: number
  looks: number
  appends: number
  versions: number
  moves: number
  revocations: number
  /** Other changes of the catalog. */
  changes: number
  /** PostgreSQL forgets. */
  forgets: number
  crashes: number
  starts: number
  /** A process begins anew, on the directory of the one before. */
  restarts: number
  /** Clocks that stand still or jump ahead for a tick. */
  clockFaults: number
  /** Take-overs begun. */
  takeOvers: number
}

/** What may happen next. It changes the world that it is given, which is equal to the one it was made for. */
export type Step = [name: string, happen: (world: World) => void]

/** Ticks. */
export const TTL = 2
export const L = 1
const ELAPSED_MAX = Math.max(TTL, L)

function never(): Budget {
  return {
    ticks: 0,
    beats: 0,
    looks: 0,
    appends: 0,
    versions: 0,
    moves: 0,
    revocations: 0,
    changes: 0,
    forgets: 0,
    crashes: 0,
    starts: 0,
    restarts: 0,
    clockFaults: 0,
    takeOvers: 0,
  }
}

export interface Cluster {
  /** How many have joined; node 0 serves all ranges. */
  nodes: number
  /** How many more may start, with an empty directory. */
  joiners?: number
  ranges?: number
  sure?: number[]
  /** When PostgreSQL forgets first, all since the first world is lost. If not: what was committed since any moment. */
  forgetsAll?: boolean
}

export function firstWorld(
  { nodes, joiners = 0, ranges = 1, sure = [], forgetsAll = false }: Cluster,
  left: Partial<Budget>,
): World {
  const epochs = Array.from({ length: nodes }, (_, epoch) => epoch)
  const world: World = {
    bucket: {
      ended: epochs.map(() => false),
      logs: epochs.map(() => []),
      versions: epochs.map(() => []),
      assigns: [{ owner: Array(ranges).fill(0), before: Array.from({ length: ranges }, () => []) }],
      catalog: [],
    },
    pg: {
      incarnation: 0,
      headIncarnation: 0,
      changes: [],
      rows: epochs.map(() => ({ state: 'alive', counter: 0, handedIn: -1 })),
    },
    saved: null,
    nodes: Array.from({ length: nodes + joiners }, (_, index) => ({
      ...newProcess(index < nodes ? index : -1, [], ranges),
      up: index < nodes,
      joined: index < nodes,
      knows: index < nodes ? 1 : 0,
      isSure: sure.includes(index),
      pgLease: index < nodes && !sure.includes(index) ? [0, 0, 0] : null,
      data: Array.from({ length: ranges }, () => (index === 0 ? [] : null)),
    })),
    network: [],
    exposed: Array.from({ length: ranges }, () => []),
    revoked: [],
    lastValue: 0,
    left: { ...never(), ...left },
  }
  if (forgetsAll) world.saved = copyOf(world).pg
  return world
}

export function newProcess(epoch: number, catalog: readonly number[], ranges: number): Node {
  return {
    epoch,
    up: true,
    ended: false,
    joined: false,
    incarnation: 0,
    trusted: true,
    isSure: false,
    pgLease: null,
    bucketLease: null,
    beat: null,
    look: null,
    knows: 0,
    data: Array(ranges).fill(null),
    put: null,
    version: null,
    covered: Array(ranges).fill(0),
    move: null,
    takeOver: null,
    catalog,
    revocation: null,
    admitted: false,
  }
}

export function isRunning(node: Node): boolean {
  return node.up && !node.ended
}

export function newestAssign({ bucket }: World): Assign {
  return bucket.assigns.at(-1) as Assign
}

/** Lets time pass on a node. @param by how far each of its clocks goes */
export function age(node: Node, by: Elapsed): void {
  const aged = ([monotonic, wall, boot]: Elapsed): Elapsed => [
    Math.min(monotonic + by[0], ELAPSED_MAX),
    Math.min(wall + by[1], ELAPSED_MAX),
    Math.min(boot + by[2], ELAPSED_MAX),
  ]
  node.pgLease &&= aged(node.pgLease)
  node.bucketLease &&= aged(node.bucketLease)
  if (node.beat !== null) node.beat.since = aged(node.beat.since)
  if (node.look !== null) node.look.since = aged(node.look.since)
  if (node.takeOver !== null) node.takeOver.waited = aged(node.takeOver.waited)
}

/** Objects of the bucket, requests, histories and times are replaced, never changed: so worlds share them. */
export function copyOf(world: World): World {
  const { bucket, pg, nodes, network, exposed, revoked, left } = world
  return {
    ...world,
    bucket: {
      ended: [...bucket.ended],
      logs: bucket.logs.map((log) => [...log]),
      versions: bucket.versions.map((versions) => [...versions]),
      assigns: [...bucket.assigns],
      catalog: bucket.catalog,
    },
    pg: { ...pg, rows: pg.rows.map((row) => row && { ...row }) },
    nodes: nodes.map((node) => ({
      ...node,
      beat: node.beat && { ...node.beat },
      look: node.look && { ...node.look },
      data: [...node.data],
      covered: [...node.covered],
      takeOver: node.takeOver && { ...node.takeOver },
      revocation: node.revocation && { ...node.revocation },
    })),
    network: [...network],
    exposed: [...exposed],
    revoked: [...revoked],
    left: { ...left },
  }
}

/** Whether the first history is where the second one begins. */
export function isPrefix(first: readonly number[], second: readonly number[]): boolean {
  return first.length <= second.length && first.every((value, at) => value === second[at])
}
