import type { SharedRow } from './shared-rows.ts'

/** Where the changes of a catalog that several nodes share become durable. */
export interface CatalogWriter {
  /**
   * Runs a change on the newest catalog, and resolves with what it returns once that is durable and the catalog has it.
   *
   * @param run it can run again if it has succeeded and could not be stored; what it has thrown is final
   * @throws what `run` throws: nothing is changed then; `cluster_unavailable`, `taken_over`
   */
  write<T>(run: () => T): Promise<T>
}

/** What came of a change that was tried and taken back. */
export type Tried =
  | { value: unknown; rows: SharedRow[] }
  /** What it has thrown. It changes nothing. */
  | { error: unknown }
