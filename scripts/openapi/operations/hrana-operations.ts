import * as z from 'zod'
import { pipelineAnswer } from '../../../src/service/hrana/hrana-bodies.ts'
import type { Operation, Operations } from '../operation.ts'
import { STATEMENTS } from './sql-operations.ts'

const pipeline = {
  tag: 'Hrana',
  answer: pipelineAnswer,
  codes: [...STATEMENTS, 'stream_expired'],
} as const satisfies Partial<Operation>

/** SQL in a cell, for the clients of libSQL and Turso. */
export const HRANA_OPERATIONS: Operations = {
  'POST /v1/databases/{id}/v2/pipeline': {
    ...pipeline,
    id: 'hranaPipelineV2',
    summary: 'Run the requests of a stream (Hrana 2)',
  },
  'POST /v1/databases/{id}/v3/pipeline': {
    ...pipeline,
    id: 'hranaPipelineV3',
    summary: 'Run the requests of a stream (Hrana 3)',
  },
  'POST /v1/databases/{id}/v3/cursor': {
    ...pipeline,
    id: 'hranaCursorV3',
    summary: 'Run a batch, and get its rows line by line (Hrana 3)',
    mediaType: 'application/x-ndjson',
    answer: z.string(),
  },
}
