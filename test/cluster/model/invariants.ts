import { canAnswer, hasLease } from './leases.ts'
import { serves, storedHistory, visible } from './log.ts'
import type { Protocol } from './rules.ts'
import { isPrefix, isRunning, type World } from './world.ts'

/** What users rely on. Each is checked after every step. */
export const INVARIANTS = {
  owner: 'At most one node can answer for a range (C1, C4).',
  history: 'Who can answer shows all that was acknowledged or read before, once, in the same order (C4, C8).',
  durable: 'The bucket alone has all that was acknowledged or read (C2, C3, C5, C8, C9).',
  catalog: 'The catalog of a node only goes forward (C6).',
  agreement: 'Two nodes that serve never have different catalogs of one version.',
  revocation: 'After the 200 of a revocation, no node admits the key (C7).',
} as const

export type Invariant = keyof typeof INVARIANTS

/**
 * A client may read at any moment, from each node that can answer: so what they show becomes what a later read must show.
 *
 * @returns the invariant that is broken
 */
export function check(before: World, world: World, protocol: Protocol): Invariant | undefined {
  const { nodes, exposed, bucket, revoked } = world
  for (const [range, known] of exposed.entries()) {
    if (!isPrefix(before.exposed[range] as readonly number[], known)) return 'history'
    const answering = nodes.filter((node) => canAnswer(node, protocol) && serves(node, range, protocol))
    if (answering.length > 1) return 'owner'
    const [owner] = answering
    if (owner !== undefined) {
      const shown = visible(owner, range, protocol)
      if (!isPrefix(known, shown) || new Set(shown).size < shown.length) return 'history'
      exposed[range] = shown
    }
    if (!isPrefix(exposed[range] as readonly number[], storedHistory(bucket, range, protocol)))
      return 'durable'
  }
  const serving = nodes.filter((node) => hasLease(node, protocol))
  for (const node of serving) {
    if (revoked.some((change) => !node.catalog.includes(change))) return 'revocation'
    if (serving.some(({ catalog }) => !isPrefix(catalog, node.catalog) && !isPrefix(node.catalog, catalog)))
      return 'agreement'
  }
  for (const [index, node] of nodes.entries()) {
    const earlier = before.nodes[index]
    const isSame = earlier?.epoch === node.epoch && earlier.joined && isRunning(node)
    if (isSame && !isPrefix(earlier.catalog, node.catalog)) return 'catalog'
  }
  return undefined
}
