/** A part of what an account has reserved. */
export interface Reservation {
  readonly bytes: number
  /** 0 ends it. */
  set(bytes: number): void
}

/** Bytes that accounts do not store yet but may be about to, so that all that is under way counts together. */
export class ReservedBytes {
  readonly #sums = new Map<string, number>()

  sumOf(accountId: string): number {
    return this.#sums.get(accountId) ?? 0
  }

  /** @returns a new reservation, of 0 bytes */
  of(accountId: string): Reservation {
    let held = 0
    return {
      get bytes() {
        return held
      },
      set: (bytes) => {
        const sum = this.sumOf(accountId) + bytes - held
        if (sum === 0) this.#sums.delete(accountId)
        else this.#sums.set(accountId, sum)
        held = bytes
      },
    }
  }
}
