import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock, Timer } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import type { StreamState } from '../../service/operations.ts'

/** Milliseconds without a request after which a stream is forgotten. */
const STREAM_IDLE_MS = 10_000
/** Streams of an account: beyond it, the one that was used longest ago is forgotten, if it has no transaction. */
export const STREAMS_PER_ACCOUNT = 1_000
/** Characters of SQL that the streams of an account keep together: beyond it, the oldest are forgotten, also with a transaction. */
const TEXTS_PER_ACCOUNT = 8_388_608

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

interface Account {
  /** By id, the one that was used longest ago first. */
  readonly streams: Map<string, HranaStream>
  characters: number
}

/**
 * The streams of this process. A client names its stream with a baton, which is signed, good once, and worth nothing with the key of
 * another account or for another cell. The baton is no proof of who asks: each request brings its key.
 */
export class HranaStreams {
  readonly #clock: Clock
  readonly #forgotten: (stream: HranaStream) => void
  readonly #secret = randomBytes(32)
  readonly #accounts = new Map<string, Account>()
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
    const stream = this.#accounts.get(owner.accountId)?.streams.get(id)
    if (stream === undefined || !isSame(signature, this.#sign(id, number, owner))) throw expired(UNKNOWN)
    if (stream.ended !== undefined) throw stream.ended
    if (!stream.isBusy && stream.usedAt < this.#clock.monotonic() - STREAM_IDLE_MS) {
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
    const account = this.#accountOf(stream)
    account.characters += lengthOf(texts) - (account.streams.has(stream.id) ? lengthOf(stream.texts) : 0)
    stream.texts = texts
    stream.isBusy = false
    stream.batons++
    this.#used(account, stream)
    this.#makeRoom(account)
    return `${stream.id}.${stream.batons}.${this.#sign(stream.id, String(stream.batons), stream)}`
  }

  /** @param error what all further requests of it are told; undefined: nobody asks for it again */
  end(stream: HranaStream, error?: CellError): void {
    if (stream.isHeld) this.#forgotten(stream)
    stream.isHeld = false
    stream.ended = error
    stream.isBusy = false
    const account = this.#accountOf(stream)
    const isKnown = this.#remove(account, stream)
    stream.texts = []
    // Its client may still ask, and is told why.
    if (error !== undefined && isKnown) this.#used(account, stream)
    if (account.streams.size === 0) this.#accounts.delete(stream.accountId)
  }

  #accountOf({ accountId }: StreamOwner): Account {
    let account = this.#accounts.get(accountId)
    if (account === undefined) {
      account = { streams: new Map(), characters: 0 }
      this.#accounts.set(accountId, account)
    }
    return account
  }

  #used(account: Account, stream: HranaStream): void {
    stream.usedAt = this.#clock.monotonic()
    account.streams.delete(stream.id)
    account.streams.set(stream.id, stream)
    this.#timer ??= this.#clock.setTimer(() => this.#expire(), STREAM_IDLE_MS)
  }

  /** The number of streams with a transaction is bounded by that of those. */
  #makeRoom(account: Account): void {
    for (const stream of account.streams.values()) {
      const isOver = account.streams.size > STREAMS_PER_ACCOUNT || account.characters > TEXTS_PER_ACCOUNT
      if (!isOver) return
      if (!stream.isHeld && !stream.isBusy) this.#remove(account, stream)
    }
    for (const stream of account.streams.values()) {
      if (account.characters <= TEXTS_PER_ACCOUNT) return
      if (!stream.isBusy && stream.texts.length > 0) this.end(stream)
    }
  }

  /** @returns whether it was there */
  #remove(account: Account, stream: HranaStream): boolean {
    const isKnown = account.streams.delete(stream.id)
    if (isKnown) account.characters -= lengthOf(stream.texts)
    return isKnown
  }

  #expire(): void {
    this.#timer = undefined
    const before = this.#clock.monotonic() - STREAM_IDLE_MS
    for (const [accountId, account] of this.#accounts) {
      for (const stream of account.streams.values()) {
        if (stream.usedAt > before) break
        if (stream.isBusy) continue
        this.#remove(account, stream)
        if (stream.isHeld) this.#forgotten(stream)
      }
      if (account.streams.size === 0) this.#accounts.delete(accountId)
    }
    if (this.#accounts.size > 0) this.#timer = this.#clock.setTimer(() => this.#expire(), STREAM_IDLE_MS / 10)
  }

  #sign(id: string, number: string, { accountId, cellId, access }: StreamOwner): string {
    const signed = `${id}.${number}.${accountId}.${cellId}.${access}`
    return createHmac('sha256', this.#secret).update(signed).digest('base64url')
  }
}

const UNKNOWN =
  'The baton is of no stream that is open here: it was idle for 10 s, or was opened by another key, for another cell, or before this server was started'
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
