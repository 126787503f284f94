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
