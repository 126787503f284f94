import type { MAY_BE_UNDEFINED, NEW_NAME } from './arguments.ts'
import type { components, operations } from './schema.generated.ts'

/** The types of a method of the client, from those of the operation in the OpenAPI document. */

/** What a problem document holds: RFC 9457, and the members of cellstore. */
export type Problem = components['schemas']['Problem'] & { code: ProblemCode }

/** The codes of all errors that come over HTTP. */
export type ProblemCode = components['schemas']['ProblemCode']

/** A value in a row. An integer beyond ±(2^53−1) is a string of its digits. */
export type SqlValue = components['schemas']['SqlValue']

/** A parameter of a statement; see `integer` and `blob`. */
export type SqlParam = components['schemas']['SqlParam']

/** The arguments of an operation, by the names that the OpenAPI document gives them: of its path, its query and its body. */
export type ArgumentsOf<O> = (O extends { parameters: { path: infer P } } ? P : unknown) &
  (O extends { parameters: { query?: infer Q } }
    ? // Without exactOptionalPropertyTypes, what has no query has the type undefined, not never.
      [NonNullable<Q>] extends [never]
      ? unknown
      : // What the body has too goes there.
        Free<Omit<NonNullable<Q>, keyof BodyOf<O>>, FreeNames<unknown>>
    : unknown) &
  Free<BodyOf<O>, FreeNames<O>>

/** What may be undefined, as far as an operation takes it. */
type FreeNames<O> = (typeof MAY_BE_UNDEFINED)[number] | Extract<typeof NEW_NAME, keyof BodyOf<O>>
type Free<T, Names> = {
  [K in keyof T]: Record<never, never> extends Pick<T, K>
    ? K extends Names
      ? T[K] | undefined
      : T[K]
    : T[K] extends (infer E extends object)[]
      ? Free<E, Names>[]
      : T[K]
}

/**
 * What a call gives as its arguments: `A extends Given<A, …>`. Nothing that narrows or guards may be undefined, also without
 * `exactOptionalPropertyTypes`, and no name may be unknown. What a variable's type declares as optional passes: only the call
 * itself finds out.
 */
export type Given<A, Arguments, Names = never> = Arguments & Sure<A, Arguments, Names>

type Sure<A, T, Names> = {
  [K in keyof A]: K extends NamesOf<T>
    ? Record<never, never> extends Pick<A, K>
      ? A[K]
      : K extends Names
        ? A[K]
        : SureValue<A[K], ValueOf<T, K>, Names>
    : Unknown<A>
}
type SureValue<V, T, Names> = V extends readonly (infer E)[]
  ? readonly E[] extends readonly object[]
    ? Sure<E, ElementOf<T>, Names>[]
    : V
  : V extends object
    ? Sure<V, T, Names>
    : Exclude<V, undefined>

type NamesOf<T> = T extends unknown ? keyof T : never
type ValueOf<T, K> = T extends unknown ? (K extends keyof T ? T[K] : never) : never
type ElementOf<T> = T extends readonly (infer E)[] ? E : never
// biome-ignore lint/suspicious/noExplicitAny: what `Parameters` makes of such a method has no names to check
type Unknown<A> = unknown extends A ? any : never

/** The fields of the body that an operation takes. */
export type BodyOf<O> = O extends { requestBody?: { content: { 'application/json': infer B } } }
  ? // What has an empty body would else have no arguments at all, not even those of its path.
    B extends Record<string, never>
    ? unknown
    : B
  : unknown

/** What an operation answers. */
export type AnswerOf<O> = O extends { responses: infer R }
  ? R[keyof R & (200 | 201 | 202)] extends { content: { 'application/json': infer A } }
    ? A
    : never
  : never

/** A call's arguments may be left out if all of them may. */
export type Method<O> =
  Record<string, never> extends ArgumentsOf<O>
    ? <A extends Given<A, ArgumentsOf<O>, FreeNames<O>>>(
        args?: A,
        options?: CallOptions,
      ) => Promise<AnswerOf<O>>
    : <A extends Given<A, ArgumentsOf<O>, FreeNames<O>>>(
        args: A,
        options?: CallOptions,
      ) => Promise<AnswerOf<O>>

/** What a single call can say beyond its arguments. */
export interface CallOptions {
  /** Ends the call, and the waits between its tries. */
  signal?: AbortSignal | undefined
  /** For `createCell`: the same key gets the same cell, for 24 hours. Without one each call has a key of its own. */
  idempotencyKey?: string | undefined
  /** More headers of the request, in any form that `fetch` takes. */
  headers?: RequestInit['headers'] | undefined
}

/** A row of a result, if `row_mode` is not `array`. */
export type Row = Record<string, SqlValue>

/** The answer to a statement, with its rows as the caller knows them. */
export type RowsAnswer<R> = Omit<components['schemas']['SqlResult'], 'rows'> & { rows: R[] }

/** A method for each operation of the OpenAPI document. Each throws {@link ProblemError}, and what `fetch` throws. */
export type Client = {
  [Id in Exclude<keyof operations, 'sql' | 'kvGet' | 'exportCell' | 'changes'>]: Method<operations[Id]>
} & {
  /**
   * The commits of a cell from now on, for `for await`: what each touched. The first change is a reset, which says: read
   * again all that you need. A connection that ends is made again, and goes on where it ended; so is one that is not made,
   * because of the network or because a proxy does not reach the server.
   *
   * @throws `TypeError` for a mistake in the call, and for an answer that is no server's; {@link ProblemError}; the signal's reason
   */
  changes<A extends Given<A, ChangesArguments>>(
    args: A,
    options?: ChangesOptions,
  ): AsyncGenerator<ChangeEvent, void, undefined>
  /** Reads an entry; undefined while it still has the version that the header names. */
  kvGet(
    args: ArgumentsOf<operations['kvGet']>,
    options: CallOptions & { headers: { 'if-none-match': string } },
  ): Promise<AnswerOf<operations['kvGet']> | undefined>
  /** Reads an entry. */
  kvGet(args: ArgumentsOf<operations['kvGet']>, options?: CallOptions): Promise<AnswerOf<operations['kvGet']>>
  /** Reads the cell as one SQLite file, as its bytes come. */
  exportCell(
    args: ArgumentsOf<operations['exportCell']>,
    options?: CallOptions,
  ): Promise<ReadableStream<Uint8Array>>
  /**
   * Makes a cell of a SQLite database. A call is not sent again once the server may have begun: with a name, a second one
   * would be refused.
   */
  importCell(
    args: {
      file: Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>
      name?: string | undefined
    },
    options?: CallOptions,
  ): Promise<AnswerOf<operations['createCell']>>
  /** Runs one statement. `R` is the caller's word for what the rows hold. */
  sql<R = Row>(
    args: Omit<ArgumentsOf<operations['sql']>, 'row_mode'> & { row_mode?: 'object' | undefined },
    options?: CallOptions,
  ): Promise<RowsAnswer<R>>
  /** With rows as arrays: values in the order of `columns`. */
  sql<R = SqlValue[]>(
    args: Omit<ArgumentsOf<operations['sql']>, 'row_mode'> & { row_mode: 'array' },
    options?: CallOptions,
  ): Promise<RowsAnswer<R>>
}

/** What of a cell is watched; by default all of its keys and tables. */
export interface ChangesArguments {
  /** The cell. */
  id: string
  /** Commits that touch keys with this prefix. */
  prefix?: string
  /** Commits that touch these tables; together with `prefix`, commits that touch either. */
  tables?: readonly string[]
}

/** Which changes, and from where on. */
export interface ChangesOptions {
  /** `id` of the last change that was read: go on after it. */
  lastEventId?: string | undefined
  /** Ends the watch: the iterator throws its reason. */
  signal?: AbortSignal | undefined
  /** More headers of the requests, in any form that `fetch` takes. */
  headers?: RequestInit['headers'] | undefined
}

/** What a watcher of a cell is told: docs/http-api.md. */
export type ChangeEvent =
  | {
      /** A commit, with what it touched; null: any key, or any table. */
      type: 'commit'
      id: string
      keys: string[] | null
      tables: string[] | null
    }
  | {
      /** Read again all that you need; changes follow from there on. */
      type: 'reset'
      id: string
      reason: string
    }
