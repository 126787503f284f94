import { COUNT, type Shape } from '../../base/options/option-shapes.ts'

/** How much of the past is kept, for those who come back. */
export interface WatchSettings {
  /** Bytes of the newest commits of a watched cell; 1 MiB by default. */
  cellBytesMax: number
  /** Bytes of the commits of all watched cells; 64 MiB by default. Accounts have equal parts. */
  totalBytesMax: number
  /** Milliseconds after the last watch of a cell until its commits are no longer kept; a minute by default. */
  keepMs: number
}

const MIB = 1_048_576
export const DEFAULT_WATCH_SETTINGS: Readonly<WatchSettings> = {
  cellBytesMax: MIB,
  totalBytesMax: 64 * MIB,
  keepMs: 60_000,
}

export const WATCH_SETTINGS: Shape<WatchSettings> = {
  cellBytesMax: COUNT,
  totalBytesMax: COUNT,
  keepMs: COUNT,
}
