import { randomUUID } from 'node:crypto'
import { CellError, isCellError } from '../../../errors.ts'
import type { CallDeadline } from '../call-deadline.ts'
import { RESERVED_FOLDER } from '../object-key-rules.ts'
import { bufferBody, type ObjectBody, type TransferOptions } from '../object-store.ts'
import { s3Status } from './s3-failure.ts'

/** The requests that a put is made of. Each rejects with a `CellError`. */
export interface PutRequests {
  find(key: string, call: CallDeadline): Promise<StoredObject | undefined>
  /** Sends the bytes. Sets `begun` before the one request that can make the object appear. */
  send(key: string, body: ObjectBody, attempt: PutAttempt, call: CallDeadline): Promise<void>
  remove(key: string, call: CallDeadline): Promise<void>
}

/** Leave to take time: a call's own, or that of clearing up after one that has used up or lost its own. */
export type Allowance = (kind: 'call' | 'clean-up') => CallDeadline

export interface StoredObject {
  size: number
  /** The `id` of the attempt that stored it, where the endpoint kept it. */
  putId: string | undefined
}

export interface PutAttempt {
  /** Goes with the object, so that an object of ours is told from somebody else's of the same size. */
  readonly id: string
  /** Whether to ask the endpoint to refuse where there is an object. */
  readonly conditional: boolean
  readonly onProgress?: TransferOptions['onProgress']
  readonly allowance: Allowance
  begun: boolean
}

export const PROBE_FOLDER = `${RESERVED_FOLDER}/probes/`
/** How often an object that was just stored is looked for: some endpoints show it a moment later. */
const PROOF_TRIES = 10

/**
 * Puts that never overwrite (invariant 9) over an S3 that may or may not help with it. Where the endpoint honours
 * conditional writes they decide. Everywhere the key is looked at before, puts of one key take turns in this process,
 * and whatever the answer to a put was, what lies at the key afterwards decides how it ended.
 */
export class CreateOnlyPuts {
  readonly #requests: PutRequests
  readonly #allowance: Allowance
  readonly #turns = new Map<string, Promise<void>>()
  #probing: Promise<boolean> | undefined
  #honoured: boolean | undefined

  constructor(requests: PutRequests, allowance: Allowance) {
    this.#requests = requests
    this.#allowance = allowance
  }

  /** Whether the endpoint honours conditional writes; undefined until the first put has found out. */
  get conditionalWrites(): boolean | undefined {
    return this.#honoured
  }

  /** Resolves when the puts that are under way have ended, one way or the other. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#turns.values())
  }

  async put(key: string, body: ObjectBody, options: TransferOptions, call: CallDeadline): Promise<void> {
    const before = this.#turns.get(key)
    const mine = call.race(Promise.resolve(before)).then(() => this.#put(key, body, options, call))
    // A put that gives up while it waits must not let the next one pass the one it waited for.
    const ended: Promise<void> = Promise.allSettled([before, mine]).then(() => {
      if (this.#turns.get(key) === ended) this.#turns.delete(key)
    })
    this.#turns.set(key, ended)
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
    if ((await this.#requests.find(key, call)) !== undefined) throw alreadyThere()
    const attempt = { id: randomUUID(), conditional, onProgress, allowance: this.#allowance, begun: false }
    try {
      await this.#requests.send(key, body, attempt, call)
      await this.#prove(key, body.size, attempt, call)
    } catch (error) {
      if (!attempt.begun) throw error
      await this.#settle(key, body.size, attempt, error, signal)
    }
  }

  /** Looks at what was stored: an endpoint has said yes to less than it was sent before. */
  async #prove(key: string, size: number, attempt: PutAttempt, call: CallDeadline): Promise<void> {
    let found: StoredObject | undefined
    for (let tries = 0; tries < PROOF_TRIES; tries++) {
      found = await this.#requests.find(key, call)
      if (found?.putId !== undefined && found.putId !== attempt.id) throw alreadyThere()
      if (found?.size === size) return
    }
    throw found === undefined
      ? new CellError('object_store_error', 'The object store confirmed an object and does not have it.')
      : new CellError(
          'object_store_error',
          'The object store confirmed an object and has another number of bytes of it.',
        )
  }

  /**
   * Finds out how an attempt ended that failed, or seemed to: its request may have been carried out and its answer lost.
   * Resolves if the object is there after all, unless the caller has given it up; then, or if it is damaged, removes it.
   */
  async #settle(
    key: string,
    size: number,
    attempt: PutAttempt,
    error: unknown,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    using call = this.#allowance('clean-up')
    // Where even this fails, the first failure says more.
    const found = await this.#requests.find(key, call).catch(() => null)
    if (found === null) throw error
    if (found === undefined) {
      if (!isCellError(error, 'object_exists')) throw error
      throw new CellError('object_store_unavailable', 'An object of this key was there and is gone again.')
    }
    if (found.putId !== attempt.id) throw alreadyThere()
    if (found.size === size && signal?.aborted !== true) return
    await this.#requests.remove(key, call).catch(() => {})
    throw error
  }

  /** Asks once whether a conditional write is refused where it has to be. A failure is no answer, and asked again. */
  #probe(): Promise<boolean> {
    this.#probing ??= this.#askConditional().then(
      (honoured) => {
        this.#honoured = honoured
        return honoured
      },
      (error: unknown) => {
        this.#probing = undefined
        throw error
      },
    )
    return this.#probing
  }

  async #askConditional(): Promise<boolean> {
    const id = randomUUID()
    const key = `${PROBE_FOLDER}${id}`
    const attempt = { id, conditional: true, allowance: this.#allowance, begun: false }
    using call = this.#allowance('call')
    try {
      for (let twice = 0; twice < 2; twice++) {
        await this.#requests.send(key, bufferBody(Buffer.from('probe')), attempt, call)
      }
      return false
    } catch (error) {
      // Nobody else knows the key, so it is our own probe that is there: by the first request or by its repetition.
      if (isCellError(error, 'object_exists')) return true
      if (REFUSED_HEADER.has(s3Status(error) ?? 0)) return false
      throw error
    } finally {
      using cleanUp = this.#allowance('clean-up')
      await this.#requests.remove(key, cleanUp).catch(() => {})
    }
  }
}

/** How endpoints answer that do not know the header of a conditional write. */
const REFUSED_HEADER = new Set([400, 501])

export function alreadyThere(): CellError {
  return new CellError('object_exists', 'There is an object of this key already.')
}
