import { randomUUID } from 'node:crypto'
import { KeyedQueue } from '../../../base/fairness/keyed-queue.ts'
import { CellError, isCellError } from '../../../errors.ts'
import type { CallDeadline } from '../call-deadline.ts'
import { RESERVED_FOLDER } from '../object-key-rules.ts'
import { bufferBody, type ObjectBody, objectExists, type TransferOptions } from '../object-store.ts'
import { wrongAnswer } from './s3-answers.ts'
import { s3ErrorName, s3Status } from './s3-failure.ts'
import type { S3Requests, StoredObject } from './s3-requests.ts'
import { type NewDeadline, type PutAttempt, sendObject } from './send-object.ts'

export const PROBE_FOLDER = `${RESERVED_FOLDER}/probes/`
/** How often a put looks for the object that it stored: some endpoints show it a moment later. */
const PROOF_TRIES = 10
/** The second one should be refused. Between the first two, another node's sweep may remove the object, if that one's clock is days ahead. */
const PROBE_PUTS = 3
/** Answers that may be about the header of a conditional write, or about something else in the request. */
const AMBIGUOUS = new Set(['InvalidArgument', 'InvalidRequest'])
/** An endpoint may learn conditional writes, and one answer may have come from a broken proxy: the test is repeated. */
const RETEST_MS = 60 * 60 * 1_000

/**
 * Puts that never overwrite (invariant 9), on any S3. If the endpoint honours conditional writes, they decide. On every
 * endpoint a put also looks at the key before it writes, puts of one key take turns in this process, and the object at the
 * key afterwards decides how a put ended, whatever the answer was (docs/decisions/0005-create-only-on-any-s3.md).
 */
export class CreateOnlyPuts {
  readonly #requests: S3Requests
  readonly #newDeadline: NewDeadline
  readonly #turns = new KeyedQueue()
  #probing: Promise<boolean> | undefined
  #honoured: boolean | undefined
  /** By the monotonic clock. */
  #retestAt = Number.POSITIVE_INFINITY

  constructor(requests: S3Requests, newDeadline: NewDeadline) {
    this.#requests = requests
    this.#newDeadline = newDeadline
  }

  /** Whether the endpoint honours conditional writes; undefined until the first put has tested it. */
  get conditionalWrites(): boolean | undefined {
    return this.#honoured
  }

  /** As {@link conditionalWrites}, tested if necessary. */
  async honoursConditions(call: CallDeadline): Promise<boolean> {
    return await call.race(this.#probe())
  }

  /** Resolves when the puts that are under way have succeeded or failed. */
  async idle(): Promise<void> {
    await this.#turns.idle()
  }

  async put(key: string, body: ObjectBody, options: TransferOptions, call: CallDeadline): Promise<void> {
    const turn = Promise.withResolvers<void>()
    const mine = this.#turns.run(key, () => {
      turn.resolve()
      return this.#put(key, body, options, call)
    })
    mine.catch(() => {})
    // A put may give up while it waits for its turn. Once it runs, it rejects only after it has cleaned up.
    await call.race(turn.promise)
    return mine
  }

  async #put(
    key: string,
    body: ObjectBody,
    { onProgress, signal }: TransferOptions,
    call: CallDeadline,
  ): Promise<void> {
    call.signal.throwIfAborted()
    const conditional = await call.race(this.#probe())
    if ((await this.#requests.find(key, call)) !== undefined) throw objectExists()
    const attempt = { ...this.#newAttempt(key, body, conditional), onProgress }
    try {
      await sendObject(this.#requests, attempt, call)
      await this.#prove(attempt, call)
    } catch (error) {
      if (!attempt.begun) throw error
      await this.#settle(attempt, error, signal)
    }
  }

  /** Looks at the stored object: endpoints exist that confirm a put of which they have stored only a part. */
  async #prove({ key, body: { size }, id }: PutAttempt, call: CallDeadline): Promise<void> {
    let found: StoredObject | undefined
    for (let tries = 0; tries < PROOF_TRIES; tries++) {
      found = await this.#requests.find(key, call)
      if (found?.putId !== undefined && found.putId !== id) throw objectExists()
      if (found?.size === size) return
    }
    throw wrongAnswer(
      found === undefined
        ? 'confirmed an object but does not have it'
        : `confirmed an object of ${size} bytes but has ${found.size} bytes of it`,
    )
  }

  /**
   * Finds out how a failed attempt really ended: S3 may have stored the object although its answer was lost. Resolves if
   * the object is complete and the caller still wants it. If it is damaged, or the caller has given up, this removes it.
   */
  async #settle(
    { key, body, id }: PutAttempt,
    error: unknown,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    using call = this.#newDeadline('clean-up')
    // If this look fails too, the first failure says more.
    const found = await this.#requests.find(key, call).catch(() => null)
    if (found === null) throw error
    if (found === undefined) {
      if (!isCellError(error, 'object_exists')) throw error
      throw new CellError(
        'object_store_unavailable',
        'Another writer held the key and its object is gone again. Try again.',
      )
    }
    if (found.putId !== id) throw objectExists()
    if (found.size === body.size && signal?.aborted !== true) return
    await this.#requests.remove(key, call).catch(() => {})
    throw error
  }

  /**
   * Tests once whether the endpoint refuses a conditional write of a key that is taken. The next put repeats a failed test,
   * and a later one the test of an endpoint that does not honour the condition.
   */
  #probe(): Promise<boolean> {
    const { clock } = this.#requests.settings
    if (clock.monotonic() >= this.#retestAt) this.#probing = undefined
    this.#probing ??= this.#testConditionalWrites().then(
      (honoured) => {
        this.#honoured = honoured
        this.#retestAt = honoured ? Number.POSITIVE_INFINITY : clock.monotonic() + RETEST_MS
        return honoured
      },
      (error: unknown) => {
        this.#probing = undefined
        throw error
      },
    )
    return this.#probing
  }

  async #testConditionalWrites(): Promise<boolean> {
    const key = `${PROBE_FOLDER}${randomUUID()}`
    const attempt = this.#newAttempt(key, bufferBody(Buffer.from('probe')), true)
    using call = this.#newDeadline('call')
    try {
      for (let put = 0; put < PROBE_PUTS; put++) {
        await sendObject(this.#requests, attempt, call)
      }
      return false
    } catch (error) {
      // Only this probe uses the key. So the object there is its own: from the first request, or from a repeated one.
      if (isCellError(error, 'object_exists')) return true
      if (!isNotImplemented(error) && (s3Status(error) !== 400 || !AMBIGUOUS.has(s3ErrorName(error))))
        throw error
      // The same request without the header: if that is refused too, the answer was about something else.
      await sendObject(this.#requests, this.#newAttempt(key, attempt.body, false), call)
      return false
    } finally {
      using cleanUp = this.#newDeadline('clean-up')
      await this.#requests.remove(key, cleanUp).catch(() => {})
    }
  }

  #newAttempt(key: string, body: ObjectBody, conditional: boolean): PutAttempt {
    return { key, body, id: randomUUID(), conditional, newDeadline: this.#newDeadline, begun: false }
  }
}

/** Says that the endpoint does not know a header, this one or another. Any other 4xx says nothing of conditional writes: a token may have expired. */
function isNotImplemented(error: unknown): boolean {
  return s3Status(error) === 501 || s3ErrorName(error) === 'NotImplemented'
}
