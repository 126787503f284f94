/** What the cells of a process have done since its start. A reader takes differences. */
export class EngineCounts {
  /** Statements of callers; those that failed too. */
  statements = 0
  /** Transactions that changed a cell and were committed, and changes that committed by themselves. */
  commits = 0
}
