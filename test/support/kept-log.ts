import type { Log } from '../../src/base/log.ts'

/** Keeps the fields of what it is told, by level. */
export class KeptLog implements Log {
  readonly infos: Record<string, unknown>[] = []
  readonly warnings: Record<string, unknown>[] = []
  readonly errors: Record<string, unknown>[] = []

  readonly info = (fields: object): void => void this.infos.push({ ...fields })
  readonly warn = (fields: object): void => void this.warnings.push({ ...fields })
  readonly error = (fields: object): void => void this.errors.push({ ...fields })
}
