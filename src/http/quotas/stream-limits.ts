import { COUNT, type Shape } from '../../base/options/option-shapes.ts'

/** How many streams of changes a node keeps open, and how many of them one account may have. */
export interface StreamLimits {
  total: number
  perAccount: number
}

export const DEFAULT_STREAM_LIMITS: StreamLimits = { total: 1_000, perAccount: 100 }

export const STREAM_LIMITS: Shape<StreamLimits> = { total: COUNT, perAccount: COUNT }
