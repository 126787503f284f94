/** A database that is written, and its backups in a folder. */
export interface BackupStore {
  /** Runs SQL in one durable transaction; each statement has its parameters. */
  write(statements: readonly { sql: string; params?: readonly unknown[] }[]): void
  /** The whole of it, stored and on disk. */
  snapshot(): Promise<unknown>
  /** Of the newest snapshot, to where a program can open it, on disk. */
  restore(): Promise<unknown>
  /** If it has a history: what is written from now on belongs to it; resolves when it does. */
  beginHistory?(): Promise<unknown>
  /** Resolves when all that was written is in the folder. */
  endHistory?(): Promise<unknown>
  /** @param time epoch milliseconds @returns the newest tick in what was restored */
  restoreTo?(time: number): Promise<number>
  close(): Promise<unknown>
}

export interface BackupPeer {
  version(): string
  open(directory: string): Promise<BackupStore>
}

/** What {@link BackupStore.restoreTo} reads. */
export const NEWEST_TICK = 'SELECT max(at) AS at FROM ticks'
