/** A value of a statement's parameter. */
export type Value = string | number | boolean | null | readonly (string | number | null)[]

/** Runs one statement; with values, `$1` and so on stand for them. */
export interface Queries {
  /** @throws `cluster_unavailable`, `internal` */
  query<Row extends object>(text: string, values?: readonly Value[]): Promise<Row[]>
}

/** @see Database.transaction */
export type Transact = <T>(
  opening: readonly string[],
  run: (transaction: Queries, opened: object[][]) => Promise<T>,
) => Promise<T>
