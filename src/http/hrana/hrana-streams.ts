import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock, Timer } from '../../base/clock.ts'
import { FairShares } from '../../engine/commits/fair-shares.ts'
import { CellError } from '../../errors.ts'
import type { StreamState } from '../../service/operations.ts'

/** What bounds the streams of a process. */
export const STREAM_BOUNDS = {
  /** Milliseconds without a request after which a stream is forgotten. */
  idleMs: 10_000,
  /** Streams of an account: beyond it, the one that was used longest ago is forgotten, if it has no transaction. */
  perAccount: 1_000,
  /** Characters of SQL that the streams of an account keep together: beyond it, the oldest are forgotten, also with a transaction. */
  textsPerAccount: 8_388_608,
  /** The same for all accounts together: beyond it, the oldest of the account that keeps most are forgotten. */
  textsTotal: 67_108_864,
} as const

/** Whose stream it is, and of which cell. */
export interface StreamOwner {
  accountId: string
  cellId: string
  /** What the key may do that began it: one that may only read can't end what another one has changed. */
  access: string
}

/** Requests of one client that belong together. It takes no more than a little memory while no transaction is open. */
export interface HranaStream extends StreamOwner {
  /** Also of its transaction, where the cell is. */
  readonly id: string
  texts: StreamState['texts']
  /** A transaction is open. */
  isHeld: boolean
  /** How many batons have been given for it: only the last one is good. */
  batons: number
  /** A request of it is under way. */
  isBusy: boolean
  usedAt: number
  /** Why its transaction is over. */
  ended: CellError | undefined
}

/**
 * The streams of this process. A client names its stream with a baton, which is signed, good once, and worth nothing with the key of
 * another account or for another cell. The baton is no proof of who asks: each request brings its key.
 */
export class HranaStreams {
  readonly #clock: Clock
  readonly #forgotten: (stream: HranaStream) => void
  readonly #secret = randomBytes(32)
  /** By account and id, the one that was used longest ago first. */
  readonly #accounts = new Map<string, Map<string, HranaStream>>()
  /** Characters of the texts of each stream. */
  readonly #texts = new FairShares(STREAM_BOUNDS.textsTotal)
  readonly #prefix = randomBytes(6).toString('base64url')
  #made = 0
  #timer: Timer | undefined

  /** @param forgotten called for a stream that has a transaction and can't be used any more */
  constructor(clock: Clock, forgotten: (stream: HranaStream) => void) {
    this.#clock = clock
    this.#forgotten = forgotten
  }

  /** A new stream. It is forgotten unless it is kept. */
  make(owner: StreamOwner): HranaStream {
    return {
      ...owner,
      id: `${this.#prefix}${(++this.#made).toString(36)}`,
      texts: [],
      isHeld: false,
      batons: 0,
      isBusy: true,
      usedAt: 0,
      ended: undefined,
    }
  }

  /**
   * The stream of a baton, for one request: {@link keep} or {@link end} follows.
   *
   * @throws `stream_expired`; why its transaction is over
   */
  take(baton: string, owner: StreamOwner): HranaStream {
    const [id = '', number = '', signature = ''] = baton.split('.')
    const stream = this.#accounts.get(owner.accountId)?.get(id)
    if (stream === undefined || !isSame(signature, this.#sign(id, number, owner))) throw expired(UNKNOWN)
    if (stream.ended !== undefined) throw stream.ended
    if (!stream.isBusy && stream.usedAt < this.#clock.monotonic() - STREAM_BOUNDS.idleMs) {
      this.end(stream)
      throw expired(UNKNOWN)
    }
    if (stream.isBusy || number !== String(stream.batons)) throw expired(USED)
    stream.isBusy = true
    return stream
  }

  /** After a request that was answered. @returns the baton of the stream's next one; null if it is closed */
  keep(stream: HranaStream, { isClosed, isOpen, texts }: StreamState): string | null {
    stream.isHeld = isOpen
    if (isClosed) {
      this.end(stream)
      return null
    }
    stream.texts = texts
    stream.isBusy = false
    stream.batons++
    this.#used(stream)
    this.#texts.delete(stream.id)
    if (texts.length > 0) this.#texts.set(stream.id, stream.accountId, lengthOf(texts))
    this.#makeRoom(stream.accountId)
    return `${stream.id}.${stream.batons}.${this.#sign(stream.id, String(stream.batons), stream)}`
  }

  /** @param error what all further requests of it are told; undefined: nobody asks for it again */
  end(stream: HranaStream, error?: CellError): void {
    if (stream.isHeld) this.#forgotten(stream)
    stream.isHeld = false
    stream.ended = error
    stream.isBusy = false
    const isKnown = this.#remove(stream)
    stream.texts = []
    // Its client may still ask, and is told why.
    if (error !== undefined && isKnown) this.#used(stream)
  }

  #used(stream: HranaStream): void {
    stream.usedAt = this.#clock.monotonic()
    const { id, accountId } = stream
    const streams = this.#accounts.get(accountId) ?? new Map()
    streams.delete(id)
    streams.set(id, stream)
    this.#accounts.set(accountId, streams)
    this.#timer ??= this.#clock.setTimer(() => this.#expire(), STREAM_BOUNDS.idleMs)
  }

  /** The number of streams with a transaction is bounded by that of those. */
  #makeRoom(accountId: string): void {
    const texts = this.#texts
    const isOver = () => texts.amountOf(accountId) > STREAM_BOUNDS.textsPerAccount
    const streams = this.#accounts.get(accountId) ?? new Map<string, HranaStream>()
    for (const stream of streams.values()) {
      if (streams.size <= STREAM_BOUNDS.perAccount && !isOver()) break
      if (!stream.isHeld && !stream.isBusy) this.#remove(stream)
    }
    this.#endOldest(accountId, isOver)
    if (texts.isExceeded) this.#endOldest(texts.heaviest ?? '', () => texts.isExceeded)
  }

  /** Also with a transaction, if they keep texts. */
  #endOldest(accountId: string, isOver: () => boolean): void {
    for (const stream of this.#accounts.get(accountId)?.values() ?? []) {
      if (!isOver()) return
      if (!stream.isBusy && stream.texts.length > 0) this.end(stream)
    }
  }

  /** @returns whether it was there */
  #remove({ id, accountId }: HranaStream): boolean {
    this.#texts.delete(id)
    const streams = this.#accounts.get(accountId)
    const isKnown = streams?.delete(id) === true
    if (streams?.size === 0) this.#accounts.delete(accountId)
    return isKnown
  }

  #expire(): void {
    this.#timer = undefined
    const before = this.#clock.monotonic() - STREAM_BOUNDS.idleMs
    for (const streams of this.#accounts.values())
      for (const stream of streams.values()) {
        if (stream.usedAt > before) break
        if (stream.isBusy) continue
        this.#remove(stream)
        if (stream.isHeld) this.#forgotten(stream)
      }
    if (this.#accounts.size > 0)
      this.#timer = this.#clock.setTimer(() => this.#expire(), STREAM_BOUNDS.idleMs / 10)
  }

  #sign(id: string, number: string, { accountId, cellId, access }: StreamOwner): string {
    const signed = `${id}.${number}.${accountId}.${cellId}.${access}`
    return createHmac('sha256', this.#secret).update(signed).digest('base64url')
  }
}

const UNKNOWN =
  'The baton is of no stream that is open here: it was idle for 10 s (hrana.idleMs), has made room for newer ones (hrana.perAccount, hrana.textsTotal), or was opened by another key, for another cell, or before this server was started'
const USED = 'The baton was used before'

function expired(why: string): CellError {
  return new CellError(
    'stream_expired',
    `${why}. Open a new stream; a transaction that was open is rolled back.`,
  )
}

function isSame(given: string, signature: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(signature)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function lengthOf(texts: StreamState['texts']): number {
  return texts.reduce((sum, [, sql]) => sum + sql.length, 0)
}
