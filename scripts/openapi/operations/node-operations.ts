import * as z from 'zod'
import { healthAnswer, readyAnswer, statusAnswer } from '../../../src/http/answers/status-answers.ts'
import type { Operations } from '../operation.ts'

/** How the node is. */
export const NODE_OPERATIONS: Operations = {
  'GET /healthz': { id: 'healthz', tag: 'Node', summary: 'The process serves', answer: healthAnswer },
  'GET /readyz': { id: 'readyz', tag: 'Node', summary: 'The catalog is open', answer: readyAnswer },
  'GET /v1/status': {
    id: 'nodeStatus',
    tag: 'Node',
    summary: 'How the node is, for a key with the access owner',
    answer: statusAnswer,
    codes: ['not_found'],
  },
  'GET /openapi.json': {
    id: 'openapi',
    tag: 'Node',
    summary: 'This document',
    answer: z.record(z.string(), z.unknown()),
  },
}
