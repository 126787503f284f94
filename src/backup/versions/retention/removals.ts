/** Removals of versions of one cell, one after the other, until somebody needs the versions. */
export interface Removals {
  /** @returns false if the removal was not done: none is done from here on */
  next(remove: () => Promise<boolean>): Promise<boolean>
}

/** Runs removals of a cell's versions. */
export type Removing = <T>(cellId: string, run: (removals: Removals) => Promise<T>) => Promise<T>
