import type { Log } from '../../src/base/log.ts'

/** Keeps the fields of what it is told at the levels that say that something is wrong. */
export class KeptLog implements Log {
  readonly warnings: Record<string, unknown>[] = []
  readonly errors: Record<string, unknown>[] = []

  readonly info = (): void => {}
  readonly warn = (fields: object): void => void this.warnings.push({ ...fields })
  readonly error = (fields: object): void => void this.errors.push({ ...fields })
}
