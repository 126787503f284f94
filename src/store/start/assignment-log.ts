import { buffer, text } from 'node:stream/consumers'
import { bufferBody, type CallOptions, type ObjectStore } from '../../backup/object-store/object-store.ts'
import { openSealed, sealJson } from '../../backup/versions/identity/sealed-json.ts'
import { backOffMs } from '../../base/async/back-off.ts'
import { type Clock, delay } from '../../base/clock.ts'
import type { Assignment } from '../../catalog/assignment/assignment.ts'
import { CellError, isCellError } from '../../errors.ts'

const PREFIX = 'assign/'
const KEY = /^assign\/(\d{10})$/
const BACK_OFF = { minMs: 200, maxMs: 5_000 }

/** The assignments in the bucket: none is ever overwritten, and the one with the greatest number holds. */
export class AssignmentLog {
  readonly #store: ObjectStore
  readonly #clock: Clock

  /** @param store as it is, without a node's prefix or guard */
  constructor(store: ObjectStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /**
   * The newest one; a listing may lag, so what follows it is looked for by its name.
   *
   * @param known a number that there is
   * @returns undefined if the store never had nodes
   * @throws `object_store_error` if it is damaged; what the object store throws
   */
  async newest(known = 0, options: CallOptions = {}): Promise<Assignment | undefined> {
    let n = known
    const after = known > 0 ? keyOf(known) : undefined
    for await (const { key } of this.#store.list(PREFIX, { ...options, after }))
      n = Math.max(n, Number(KEY.exec(key)?.[1] ?? 0))
    let found = n === 0 ? undefined : await this.#read(n, options)
    for (;;) {
      const next = await this.#read(n + 1, options)
      if (next === undefined) return found
      found = next
      n++
    }
  }

  /**
   * Puts an assignment, and goes on until it is known what became of that: an unknown outcome could come true later.
   *
   * @returns false if another one has this number
   */
  async put(assignment: Assignment, options: CallOptions = {}): Promise<boolean> {
    const bytes = sealJson(assignment)
    for (let failures = 0; ; failures++) {
      try {
        await this.#store.put(keyOf(assignment.n), bufferBody(bytes), options)
        return true
      } catch (error) {
        if (isCellError(error, 'object_exists')) return await this.#isOurs(assignment.n, bytes, options)
        options.signal?.throwIfAborted()
        await delay(this.#clock, backOffMs(failures, BACK_OFF))
      }
    }
  }

  /** An earlier try may have been stored. */
  async #isOurs(n: number, bytes: Buffer, options: CallOptions): Promise<boolean> {
    for (let failures = 0; ; failures++) {
      try {
        const content = await this.#store.get(keyOf(n), options)
        return content !== undefined && (await buffer(content.body)).equals(bytes)
      } catch {
        options.signal?.throwIfAborted()
        await delay(this.#clock, backOffMs(failures, BACK_OFF))
      }
    }
  }

  async #read(n: number, options: CallOptions): Promise<Assignment | undefined> {
    const content = await this.#store.get(keyOf(n), options)
    if (content === undefined) return undefined
    // A store that runs alone does without it.
    const { parseAssignment } = await import('../../catalog/assignment/parsed-assignment.ts')
    const assignment = parseAssignment(openSealed(await text(content.body)))
    if (assignment?.n === n) return assignment
    throw new CellError(
      'object_store_error',
      `${keyOf(n)} in ${this.#store.url} is damaged, or this version of cellstore cannot read it. It says which node has which cells.`,
    )
  }
}

function keyOf(n: number): string {
  return `${PREFIX}${String(n).padStart(10, '0')}`
}
