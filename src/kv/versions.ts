import { randomBytes } from 'node:crypto'

/** A version fits into 63 bits, with room above the highest start for more writes than any process lives to make. */
const START_BITS = 62

/**
 * The versions of entries, of one open database. Each write takes the next number of a series, and each opening of the
 * file begins a series at a random place. So no version comes back for a key: not after its deletion, a rollback, a
 * crash, or a restore that takes the cell back to an earlier state, where a counter in the file would count the same
 * numbers again for other values. Two series meet by accident with a chance of 2^-62 for each pair of versions.
 */
export class Versions {
  #last: bigint | undefined

  next(): bigint {
    this.#last = (this.#last ?? randomStart()) + 1n
    return this.#last
  }
}

/** A version for all entries that have none, of a cell made before there were versions. */
export function randomStart(): bigint {
  return BigInt.asUintN(START_BITS, randomBytes(8).readBigUInt64BE())
}
