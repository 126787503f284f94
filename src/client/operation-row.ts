/** Where an operation is, and which of its arguments go where. */
export interface OperationRow {
  readonly method: string
  /** With `{…}` for the arguments that are part of it. */
  readonly path: string
  /** The arguments that are parameters of the query. */
  readonly query: readonly string[]
  /** Whether the other arguments are a body. */
  readonly hasBody: boolean
  /** Whether it takes an `Idempotency-Key`. */
  readonly idempotent: boolean
  /** Whether it answers a file, and not JSON. */
  readonly answersFile?: true
}
