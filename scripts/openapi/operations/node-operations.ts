import * as z from 'zod'
import { healthAnswer, readyAnswer } from '../../../src/http/answers/health-answers.ts'
import type { Operations } from '../operation.ts'

/** How the node is. */
export const NODE_OPERATIONS: Operations = {
  'GET /healthz': { id: 'healthz', tag: 'Node', summary: 'The process serves', answer: healthAnswer },
  'GET /readyz': { id: 'readyz', tag: 'Node', summary: 'The catalog is open', answer: readyAnswer },
  'GET /openapi.json': {
    id: 'openapi',
    tag: 'Node',
    summary: 'This document',
    answer: z.record(z.string(), z.unknown()),
  },
}
