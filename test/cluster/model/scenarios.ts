import type { Budget, Cluster } from './world.ts'

/** A small world that can be explored whole. What is not named does not happen. */
export interface Scenario {
  cluster: Cluster
  left: Partial<Budget>
  /** Whether beats and looks take time to arrive. */
  delays?: boolean
}

export const SCENARIOS = {
  'an owner that stops': {
    cluster: { nodes: 2, sure: [1] },
    left: { ticks: 3, appends: 2, takeOvers: 1, beats: 1, looks: 1 },
  },
  'requests that take long': {
    cluster: { nodes: 2, sure: [1] },
    left: { ticks: 3, appends: 1, takeOvers: 1, beats: 1, looks: 1 },
    delays: true,
  },
  'clocks that stand or jump': {
    cluster: { nodes: 2, sure: [1] },
    left: { ticks: 3, takeOvers: 1, looks: 1, clockFaults: 2 },
  },
  'two that take over': {
    cluster: { nodes: 3, sure: [1, 2] },
    left: { crashes: 1, takeOvers: 2, appends: 2 },
  },
  'a planned move': {
    cluster: { nodes: 2, sure: [0, 1] },
    left: { moves: 1, appends: 2 },
  },
  'a move, and a restart': {
    cluster: { nodes: 2, sure: [0, 1] },
    left: { moves: 1, appends: 2, restarts: 1 },
  },
  'a range that comes back': {
    cluster: { nodes: 2, sure: [0, 1] },
    left: { moves: 2, appends: 2, versions: 1 },
  },
  'a range for one that was taken over': {
    cluster: { nodes: 2, sure: [1] },
    left: { ticks: 3, moves: 1, appends: 1, versions: 1, takeOvers: 1 },
  },
  'a move from an owner that stops': {
    cluster: { nodes: 3, sure: [1, 2] },
    left: { ticks: 2, moves: 1, appends: 1, takeOvers: 1 },
  },
  'versions of an owner that stops': {
    cluster: { nodes: 2, sure: [1] },
    left: { ticks: 3, appends: 1, versions: 1, takeOvers: 1 },
  },
  'a log of two ranges': {
    cluster: { nodes: 3, ranges: 2, sure: [1, 2] },
    left: { crashes: 1, appends: 2, versions: 1, takeOvers: 1 },
  },
  'a take-over is forgotten': {
    cluster: { nodes: 2, sure: [1], forgetsAll: true },
    left: { ticks: 3, takeOvers: 1, beats: 2, looks: 1, forgets: 1 },
  },
  'a revocation is forgotten': {
    cluster: { nodes: 2, sure: [0, 1] },
    left: { forgets: 1, revocations: 1, changes: 1 },
  },
  'changes are forgotten twice': {
    cluster: { nodes: 2, sure: [0, 1] },
    left: { forgets: 2, changes: 2 },
  },
  'a revocation while one is silent': {
    cluster: { nodes: 2, sure: [1] },
    left: { revocations: 1, takeOvers: 2, ticks: 3, looks: 1 },
  },
  'a join is forgotten': {
    cluster: { nodes: 1, joiners: 1, sure: [0] },
    left: { forgets: 1, revocations: 1, starts: 1, looks: 1 },
  },
  'a change is forgotten, and who made it was dead': {
    cluster: { nodes: 2, sure: [0], forgetsAll: true },
    left: { forgets: 1, changes: 2, crashes: 1, starts: 1, takeOvers: 1, looks: 1 },
  },
  'a revocation is forgotten, and all nodes die': {
    cluster: { nodes: 1, joiners: 1, forgetsAll: true },
    left: { forgets: 1, revocations: 1, crashes: 1, starts: 1, takeOvers: 1, looks: 1 },
  },
} satisfies Record<string, Scenario>

/** All at once: too much to be seen whole. */
export const EVERYTHING: Scenario = {
  cluster: { nodes: 3, joiners: 1, ranges: 2 },
  left: {
    ticks: 12,
    beats: 12,
    looks: 12,
    appends: 6,
    versions: 3,
    moves: 2,
    revocations: 2,
    changes: 2,
    forgets: 2,
    crashes: 2,
    starts: 3,
    clockFaults: 2,
    takeOvers: 6,
  },
  delays: true,
}
