import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { LruCache } from '../../base/lru-cache.ts'

/** On a call between nodes: the receiver's challenge, who sends, a number, and the signature of all that and of the call. */
export const SIGNATURE_HEADER = 'cellstore-signature'
/** On the refusal of a call that was signed for another challenge. */
export const CHALLENGE_HEADER = 'cellstore-challenge'

/** Calls of one sender that may overtake each other. */
const WINDOW = 4_096
const SENDERS_MAX = 4_096

/** What is signed of a call, beside its challenge and its number. */
export interface SignedCall {
  method: string
  path: string
  body: string
}

function sign(secret: string, { method, path, body }: SignedCall, ...parts: readonly string[]): string {
  return createHmac('sha256', secret)
    .update([method, path, ...parts, body].join('\n'))
    .digest('base64url')
}

/** Signs the calls of this process. */
export class Signer {
  readonly #secret: string
  readonly #sender = randomBytes(12).toString('base64url')
  #calls = 0

  constructor(secret: string) {
    this.#secret = secret
  }

  /** @param challenge the receiver's; empty if it is not known yet */
  header(call: SignedCall, challenge: string): string {
    const parts = [challenge, this.#sender, String(++this.#calls)]
    return [...parts, sign(this.#secret, call, ...parts)].join(' ')
  }
}

/**
 * Checks the calls to this process. No clock is asked: those of two nodes may be an hour apart. A call is signed for a challenge that
 * this process has made up, and counts once.
 */
export class SignatureCheck {
  readonly challenge = randomBytes(12).toString('base64url')
  readonly #secret: string
  /** By sender: the highest number, and those that have come of the ones below. */
  readonly #senders = new LruCache<{ highest: number; seen: Set<number> }>(SENDERS_MAX)

  constructor(secret: string) {
    this.#secret = secret
  }

  /** @returns whether the call comes from a node of this cluster, is for this process, and is no repetition */
  admits(header: string, call: SignedCall): boolean {
    const [challenge = '', sender = '', text = '', signature = ''] = header.split(' ')
    const [given, right] = [signature, sign(this.#secret, call, challenge, sender, text)].map((each) =>
      Buffer.from(each),
    ) as [Buffer, Buffer]
    if (given.length !== right.length || !timingSafeEqual(given, right)) return false
    return challenge === this.challenge && this.#isFirst(sender, Number(text))
  }

  #isFirst(sender: string, number: number): boolean {
    const { highest, seen } = this.#senders.get(sender) ?? { highest: 0, seen: new Set<number>() }
    if (number <= highest - WINDOW || seen.has(number)) return false
    seen.add(number)
    const newest = Math.max(highest, number)
    for (const each of seen) if (each <= newest - WINDOW) seen.delete(each)
    this.#senders.set(sender, { highest: newest, seen })
    return true
  }
}
