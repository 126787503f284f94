import { isIPv6 } from 'node:net'
import { isLoopback } from '../base/loopback.ts'

/** How many connections each remote address has, so that one cannot take them all. */
export class AddressCounts {
  readonly #max: number
  readonly #countsLoopback: boolean
  readonly #counts = new Map<string, number>()

  /** @param perAddressMax undefined: half of all, and this machine is not counted */
  constructor(connectionsMax: number, perAddressMax: number | undefined) {
    this.#max = perAddressMax ?? Math.ceil(connectionsMax / 2)
    this.#countsLoopback = perAddressMax !== undefined
  }

  get max(): number {
    return this.#max
  }

  /** @returns how many the address has now; 0 if it is not counted */
  add(address: string | undefined): number {
    const sender = this.#senderOf(address)
    if (sender === undefined) return 0
    const count = (this.#counts.get(sender) ?? 0) + 1
    this.#counts.set(sender, count)
    return count
  }

  remove(address: string | undefined): void {
    const sender = this.#senderOf(address)
    if (sender === undefined) return
    const count = (this.#counts.get(sender) ?? 0) - 1
    if (count > 0) this.#counts.set(sender, count)
    else this.#counts.delete(sender)
  }

  /** Undefined: a Unix socket, or this machine if it is not counted. */
  #senderOf(address: string | undefined): string | undefined {
    if (address === undefined || address === '') return undefined
    if (!this.#countsLoopback && isLoopback(plainOf(address))) return undefined
    return senderOf(address)
  }
}

/** Who has an address: a host has many of IPv6. Empty for a Unix socket, and for a socket that is closed. */
export function senderOf(address = ''): string {
  const plain = plainOf(address)
  return isIPv6(plain) ? networkOf(plain) : plain
}

function plainOf(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address
}

/** The first 64 bits: a host has all the addresses behind them. */
function networkOf(address: string): string {
  const [head = '', tail] = address.split('%', 1)[0]?.split('::') ?? []
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - first.length - last.length
  return [...first, ...Array<string>(zeros).fill('0'), ...last].slice(0, 4).join(':')
}
