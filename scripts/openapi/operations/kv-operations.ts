import * as z from 'zod'
import {
  deleteAnswer,
  deletedCountAnswer,
  entriesAnswer,
  entryAnswer,
  entryPageAnswer,
  expireAnswer,
  foundAnswer,
  incrAnswer,
  putAnswer,
  putsAnswer,
  ttlAnswer,
} from '../../../src/service/json/kv-answers.ts'
import { noted } from '../../../src/service/json/schema-notes.ts'
import type { Operations } from '../operation.ts'
import { INCREMENTS, PAGE_QUERY, PUTS, WRITES } from './common.ts'

const ETAG = { ETag: 'The entry’s version, in quotes.' }
const ifMatch = noted(z.string(), {
  description: 'An ETag: only if the entry has this version; *: only if there is one.',
})
const ifNoneMatch = noted(z.string(), { description: '*: only if there is no entry.' })

/** Entries of a cell. */
export const KV_OPERATIONS: Operations = {
  'GET /v1/databases/{id}/kv': {
    id: 'kvList',
    tag: 'KV',
    summary: 'List entries in the order of their keys',
    query: {
      prefix: z.string(),
      ...PAGE_QUERY,
      reverse: z.boolean(),
      values: noted(z.boolean(), { description: 'Whether entries have their values.' }),
    },
    answer: entryPageAnswer,
    codes: ['invalid_key'],
  },
  'PUT /v1/databases/{id}/kv/{key}': {
    id: 'kvPut',
    tag: 'KV',
    summary: 'Put an entry',
    headers: { 'If-Match': ifMatch, 'If-None-Match': ifNoneMatch },
    answer: putAnswer,
    answerHeaders: ETAG,
    codes: [...PUTS, 'precondition_failed'],
  },
  'GET /v1/databases/{id}/kv/{key}': {
    id: 'kvGet',
    tag: 'KV',
    summary: 'Get an entry',
    headers: {
      'If-None-Match': noted(z.string(), { description: 'An ETag: 304 if the entry has this version.' }),
    },
    answer: entryAnswer,
    answerHeaders: ETAG,
    otherwise: { status: 304, summary: 'The entry has the version of If-None-Match', answerHeaders: ETAG },
    codes: ['key_not_found', 'invalid_key'],
  },
  'DELETE /v1/databases/{id}/kv/{key}': {
    id: 'kvDelete',
    tag: 'KV',
    summary: 'Delete an entry',
    headers: { 'If-Match': ifMatch },
    answer: deleteAnswer,
    codes: [...WRITES, 'invalid_key', 'precondition_failed'],
  },
  'POST /v1/databases/{id}/kv/ops/incr': {
    id: 'kvIncr',
    tag: 'KV',
    summary: 'Add to a counter',
    answer: incrAnswer,
    codes: INCREMENTS,
  },
  'POST /v1/databases/{id}/kv/ops/ttl': {
    id: 'kvTtl',
    tag: 'KV',
    summary: 'Seconds that entries have left',
    answer: ttlAnswer,
    codes: ['invalid_key'],
  },
  'POST /v1/databases/{id}/kv/ops/expire': {
    id: 'kvExpire',
    tag: 'KV',
    summary: 'Set or remove the time to live of an entry',
    answer: expireAnswer,
    codes: [...WRITES, 'invalid_key', 'invalid_ttl'],
  },
  'POST /v1/databases/{id}/kv/ops/mget': {
    id: 'kvMget',
    tag: 'KV',
    summary: 'Get several entries',
    answer: entriesAnswer,
    codes: ['invalid_key', 'result_too_large'],
  },
  'POST /v1/databases/{id}/kv/ops/mset': {
    id: 'kvMset',
    tag: 'KV',
    summary: 'Put several entries, all or none',
    answer: putsAnswer,
    codes: [...PUTS, 'precondition_failed'],
  },
  'POST /v1/databases/{id}/kv/ops/delete': {
    id: 'kvDeleteMany',
    tag: 'KV',
    summary: 'Delete several entries at once',
    answer: deletedCountAnswer,
    codes: [...WRITES, 'invalid_key'],
  },
  'POST /v1/databases/{id}/kv/ops/getdel': {
    id: 'kvGetdel',
    tag: 'KV',
    summary: 'Get an entry and delete it',
    answer: foundAnswer,
    codes: [...WRITES, 'invalid_key'],
  },
}
