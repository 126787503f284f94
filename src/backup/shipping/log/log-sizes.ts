import type { LogNumber } from '../../versions/object-keys.ts'

/** Numbers that share a block of memory. */
const BLOCK = 512

/**
 * The sizes of listed log objects. A node can make ten a second, so millions of them may be listed: each takes eight bytes, outside
 * of the JavaScript heap.
 */
export class LogSizes {
  /** By epoch, and by number / `BLOCK`: each size plus 1; 0: no such object. */
  readonly #epochs = new Map<number, Map<number, Float64Array>>()

  set({ epoch, number }: LogNumber, sizeBytes: number): void {
    let blocks = this.#epochs.get(epoch)
    if (blocks === undefined) {
      blocks = new Map()
      this.#epochs.set(epoch, blocks)
    }
    const index = Math.floor(number / BLOCK)
    let block = blocks.get(index)
    if (block === undefined) {
      block = new Float64Array(BLOCK)
      blocks.set(index, block)
    }
    block[number % BLOCK] = sizeBytes + 1
  }

  /** Undefined if there is no such object. */
  get({ epoch, number }: LogNumber): number | undefined {
    const size = this.#epochs.get(epoch)?.get(Math.floor(number / BLOCK))?.[number % BLOCK] ?? 0
    return size === 0 ? undefined : size - 1
  }

  /** The first of those that lead to an object without a gap. @param min the lowest number to look at */
  firstOfRow({ epoch, number }: LogNumber, min: number): number {
    let first = number
    while (first > min && this.get({ epoch, number: first - 1 }) !== undefined) first--
    return first
  }

  /** The newest object before a place. */
  lastBefore({ epoch, number }: LogNumber): LogNumber | undefined {
    for (const each of newestFirst(this.#epochs.keys())) {
      if (each > epoch) continue
      const last = this.#lastOf(each, each === epoch ? number : Number.POSITIVE_INFINITY)
      if (last !== undefined) return { epoch: each, number: last }
    }
    return undefined
  }

  #lastOf(epoch: number, below: number): number | undefined {
    for (const index of newestFirst(this.#epochs.get(epoch)?.keys() ?? [])) {
      const begin = index * BLOCK
      for (let number = Math.min(begin + BLOCK, below) - 1; number >= begin; number--)
        if (this.get({ epoch, number }) !== undefined) return number
    }
    return undefined
  }
}

function newestFirst(numbers: Iterable<number>): number[] {
  return [...numbers].sort((a, b) => b - a)
}
