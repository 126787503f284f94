/** For what no caller hears of, with pino's order of arguments. It never gets a key, a value or an SQL parameter. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export const silentLog: Log = { info() {}, warn() {}, error() {} }
