import { check, type Invariant } from './invariants.ts'
import { forgetWhatIsOver } from './leases.ts'
import type { Protocol } from './rules.ts'
import { stepsFrom } from './steps.ts'
import { copyOf, type World } from './world.ts'

export interface Exploration {
  worlds: number
  /** Whether all worlds were seen. */
  isComplete: boolean
  broken?: { invariant: Invariant; steps: string[] }
}

/** Breadth first: all worlds that can be reached, up to a count. A counterexample is among the shortest ones. */
export function explore(first: World, protocol: Protocol, worldsMax = Number.POSITIVE_INFINITY): Exploration {
  const seen = new Set<number>()
  const parents: number[] = []
  const names: string[] = []
  let layer: [id: number, world: World][] = []
  const add = (parent: number, name: string, world: World, next: typeof layer) => {
    const hash = hashOf(world)
    if (seen.has(hash)) return
    seen.add(hash)
    next.push([parents.length, world])
    parents.push(parent)
    names.push(name)
  }
  const pathTo = (id: number) => {
    const path: string[] = []
    for (let at = id; at > 0; at = parents[at] as number) path.unshift(names[at] as string)
    return path
  }
  add(-1, '', first, layer)
  while (layer.length > 0) {
    const next: typeof layer = []
    for (const [id, world] of layer) {
      for (const [name, happen] of stepsFrom(world, protocol)) {
        const after = copyOf(world)
        happen(after)
        const invariant = check(world, after, protocol)
        if (invariant !== undefined)
          return { worlds: seen.size, isComplete: false, broken: { invariant, steps: [...pathTo(id), name] } }
        forgetWhatIsOver(after, protocol)
        add(id, name, after, next)
      }
      if (seen.size > worldsMax) return { worlds: seen.size, isComplete: false }
    }
    layer = next
  }
  return { worlds: seen.size, isComplete: true }
}

/** One way through the worlds. @param choose a number below the bound */
export function walk(
  first: World,
  protocol: Protocol,
  steps: number,
  choose: (bound: number) => number,
): Exploration {
  let world = first
  const names: string[] = []
  while (names.length < steps) {
    const possible = stepsFrom(world, protocol)
    if (possible.length === 0) break
    const [name, happen] = possible[choose(possible.length)] as (typeof possible)[number]
    names.push(name)
    const before = world
    world = copyOf(before)
    happen(world)
    const invariant = check(before, world, protocol)
    if (invariant !== undefined)
      return { worlds: names.length, isComplete: false, broken: { invariant, steps: names } }
  }
  return { worlds: names.length, isComplete: false }
}

let high = 0
let low = 0

/** 53 bits: two of a million worlds have the same one with a chance of 1 in 20,000. */
function hashOf(world: World): number {
  high = 0xdeadbeef
  low = 0x41c6ce57
  mixValue(world)
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909)
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909)
  return 4294967296 * (2097151 & low) + (high >>> 0)
}

function mixValue(value: unknown): void {
  if (typeof value === 'number') mix(value)
  else if (typeof value === 'boolean') mix(value ? -2 : -3)
  else if (value === null) mix(-4)
  else if (typeof value === 'string') for (let at = 0; at < value.length; at++) mix(value.charCodeAt(at))
  else if (Array.isArray(value)) {
    mix(-5 - value.length)
    for (const item of value) mixValue(item)
  } else for (const key in value as object) mixValue((value as Record<string, unknown>)[key])
}

function mix(value: number): void {
  high = Math.imul(high ^ value ^ (high >>> 15), 2654435761)
  low = Math.imul(low ^ value ^ (low >>> 13), 1597334677)
}
