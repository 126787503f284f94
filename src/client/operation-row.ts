/** Where an operation is, and which of its arguments go where. */
export interface OperationRow {
  readonly method: string
  /** With `{…}` for the arguments that are part of it. */
  readonly path: string
  /** The arguments that are parameters of the query. */
  readonly query: readonly string[]
  /** The arguments that are fields of the body; null: there is none. */
  readonly body: BodyFields | null
  /** Whether it takes an `Idempotency-Key`. */
  readonly idempotent: boolean
  /** Whether it answers a file, and not JSON. */
  readonly answersFile?: true
}

/** The fields of an object, or of the objects in a list, each with its own. One without fields is a value. */
export interface BodyFields {
  readonly [name: string]: BodyFields
}
