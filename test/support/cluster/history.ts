/** What a client asked of one cell, and what it was answered. Times are of one clock that never steps back. */
interface Call {
  begun: number
  /** Infinity if there was no answer, or one that does not say whether it was done. */
  ended: number
}

export interface Append extends Call {
  value: number
  acknowledged: boolean
  /** The address of the node that acknowledged it. */
  by: string
}

export interface Read extends Call {
  values: number[]
}

/** A write that was to replace one version of the register by another. */
export interface Swap extends Call {
  from: string
  to: string
  acknowledged: boolean
  by: string
}

export interface KeyUse extends Call {
  admitted: boolean
}

export interface Violation {
  rule: string
  what: string
}

/**
 * Checks appends of unique values to one cell, and reads of all of them, in real-time order. What was acknowledged stays, in its
 * place; a read has all that was acknowledged before it began. What was not acknowledged may be there, and may be taken back.
 *
 * @param final what the cell has at the end
 */
export function checkAppends(
  appends: readonly Append[],
  reads: readonly Read[],
  final: readonly number[],
): Violation[] {
  const violations: Violation[] = []
  const sent = new Set(appends.map(({ value }) => value))
  const acknowledged = new Set(appends.filter((each) => each.acknowledged).map(({ value }) => value))
  const place = new Map(final.map((value, i) => [value, i]))
  const found = (rule: string, what: string) => violations.push({ rule, what })
  if (place.size !== final.length)
    found('nothing twice', `the cell has ${final.length} values, ${place.size} different ones`)
  for (const value of final) if (!sent.has(value)) found('nothing unasked', `${value} was never sent`)
  for (const value of acknowledged)
    if (!place.has(value))
      found('nothing acknowledged is lost', `${value} was acknowledged, and is not there`)
  for (const [a, b] of pairsInTime(appends.filter((each) => each.acknowledged)))
    if ((place.get(a.value) ?? -1) > (place.get(b.value) ?? Number.POSITIVE_INFINITY))
      found('real-time order', `${a.value} was acknowledged before ${b.value} was sent, and comes after it`)
  for (const read of reads) {
    const lasting = read.values.filter((value) => acknowledged.has(value))
    const expected = final.filter((value) => acknowledged.has(value)).slice(0, lasting.length)
    const isPrefix = lasting.every((value, i) => value === expected[i])
    if (!isPrefix)
      found('reads are prefixes', `a read had ${lasting.slice(-5)} where the cell has ${expected.slice(-5)}`)
    const there = new Set(read.values)
    for (const append of appends)
      if (append.acknowledged && append.ended < read.begun && !there.has(append.value))
        found(
          'no stale read',
          `${append.value} was acknowledged at ${append.ended | 0}, and a read from ${read.begun | 0} on lacks it`,
        )
  }
  return violations
}

/** What a lost node has acknowledged in between may be lost, as `cluster status` says. */
export interface Loss {
  /** The node's address. */
  by: string
  from: number
  until: number
}

/**
 * A history in a durability other than `remote`, as far as it has to last: a node that is lost takes along only what the cluster says
 * may be lost. What is left must hold as ever.
 */
export function lasting(
  { appends, swaps }: { appends: readonly Append[]; swaps: readonly Swap[] },
  final: readonly number[],
  losses: readonly Loss[],
): { appends: Append[]; swaps: Swap[] } {
  const there = new Set(final)
  const mayBeLost = ({ by, begun, ended }: Append | Swap) =>
    losses.some((loss) => loss.by === by && ended >= loss.from && begun <= loss.until)
  return {
    appends: appends.map((each) =>
      there.has(each.value) || !mayBeLost(each)
        ? each
        : { ...each, acknowledged: false, ended: Number.POSITIVE_INFINITY },
    ),
    swaps: swaps.filter((each) => !mayBeLost(each)),
  }
}

/** Of several writes that were to replace the same version, one was done. */
export function checkSwaps(swaps: readonly Swap[]): Violation[] {
  const by = new Map<string, Swap[]>()
  for (const swap of swaps) if (swap.acknowledged) by.set(swap.from, [...(by.get(swap.from) ?? []), swap])
  return [...by]
    .filter(([, same]) => same.length > 1)
    .map(([from, same]) => ({
      rule: 'compare and set',
      what: `version ${from} was replaced ${same.length} times`,
    }))
}

/** Nobody admits a key that a request uses after its revocation was acknowledged. */
export function checkRevocation(revokedAt: number, uses: readonly KeyUse[]): Violation[] {
  return uses
    .filter(({ begun, admitted }) => admitted && begun > revokedAt)
    .map(({ begun }) => ({
      rule: 'a revoked key is refused',
      what: `it was admitted ${Math.round(begun - revokedAt)} ms after its revocation was acknowledged`,
    }))
}

/** Each with the next ones that began after it had ended: enough to find any pair in the wrong order. */
function* pairsInTime<T extends Call>(calls: readonly T[]): Generator<[T, T]> {
  const byEnd = calls.toSorted((a, b) => a.ended - b.ended)
  const byBegin = calls.toSorted((a, b) => a.begun - b.begun)
  for (const a of byEnd) {
    const b = byBegin.find(({ begun }) => begun > a.ended)
    if (b !== undefined) yield [a, b]
  }
}
