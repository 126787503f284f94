import * as z from 'zod'
import { noted } from '../../../src/service/json/schema-notes.ts'
import type { Operations } from '../operation.ts'

/** Commits of a cell. */
export const CHANGE_OPERATIONS: Operations = {
  'GET /v1/databases/{id}/changes': {
    id: 'changes',
    tag: 'Cells',
    summary: 'Watch the commits of a cell, as Server-Sent Events',
    query: {
      prefix: noted(z.string(), { description: 'Only commits that touch keys with this prefix.' }),
      tables: noted(z.string(), {
        description: 'Only commits that touch one of these tables; with commas between their names.',
      }),
    },
    headers: {
      'Last-Event-ID': noted(z.string(), { description: 'The id of the last event: go on after it.' }),
    },
    answer: noted(z.string(), { description: 'Events reset, commit and end.' }),
    mediaType: 'text/event-stream',
    codes: ['invalid_key'],
  },
}
