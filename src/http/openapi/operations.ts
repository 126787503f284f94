import { z } from 'zod'
import type { CellErrorCode } from '../../errors.ts'
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
} from '../../service/json/kv-answers.ts'
import { noted } from '../../service/json/schema-notes.ts'
import { batchAnswer, sqlAnswer } from '../../service/json/sql-answers.ts'
import { createdKeyAnswer, keysAnswer, revokedKeyAnswer } from '../answers/api-key-answers.ts'
import {
  backupAnswer,
  backupPageAnswer,
  restoreAnswer,
  restoreStatusAnswer,
} from '../answers/backup-answers.ts'
import { healthAnswer, readyAnswer } from '../answers/health-answers.ts'
import { CELL_OPERATIONS } from './cell-operations.ts'
import { type Operation, page } from './operation.ts'

const ETAG = { ETag: 'The entry’s version, in quotes.' }
const ifMatch = noted(z.string(), {
  description: 'An ETag: only if the entry has this version; *: only if there is one.',
})
const ifNoneMatch = noted(z.string(), { description: '*: only if there is no entry.' })

const WRITES: readonly CellErrorCode[] = ['quota_exceeded']
const STATEMENTS: readonly CellErrorCode[] = [
  ...WRITES,
  'sql_error',
  'sql_too_long',
  'multiple_statements',
  'param_count_mismatch',
  'invalid_parameter',
  'statement_not_allowed',
  'statement_timeout',
  'constraint_violation',
  'result_too_large',
  'result_memory_exceeded',
]
const PUTS: readonly CellErrorCode[] = [...WRITES, 'invalid_key', 'invalid_ttl', 'value_too_large']
const INCREMENTS: readonly CellErrorCode[] = [
  ...WRITES,
  'invalid_key',
  'invalid_ttl',
  'not_an_integer',
  'integer_overflow',
]
const BACKUPS: readonly CellErrorCode[] = [
  'object_store_not_configured',
  'quota_exceeded',
  'restore_in_progress',
]

/** Every row of routes.ts, by its method and path. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  'GET /healthz': { id: 'healthz', tag: 'Node', summary: 'The process serves', answer: healthAnswer },
  'GET /readyz': { id: 'readyz', tag: 'Node', summary: 'The catalog is open', answer: readyAnswer },
  'GET /openapi.json': {
    id: 'openapi',
    tag: 'Node',
    summary: 'This document',
    answer: z.record(z.string(), z.unknown()),
  },

  'POST /v1/api-keys': {
    id: 'createApiKey',
    tag: 'API keys',
    summary: 'Make an API key of the account',
    status: 201,
    answer: createdKeyAnswer,
    codes: ['quota_exceeded', 'disk_full', 'idempotency_not_supported'],
  },
  'GET /v1/api-keys': {
    id: 'listApiKeys',
    tag: 'API keys',
    summary: 'List the active API keys of the account, newest first',
    query: page,
    answer: keysAnswer,
    answerHeaders: { Link: 'The path of the next page, if there is one.' },
  },
  'DELETE /v1/api-keys/{key_id}': {
    id: 'revokeApiKey',
    tag: 'API keys',
    summary: 'Revoke an API key',
    answer: revokedKeyAnswer,
    codes: ['api_key_not_found', 'disk_full'],
  },

  ...CELL_OPERATIONS,

  'POST /v1/databases/{id}/sql': {
    id: 'sql',
    tag: 'SQL',
    summary: 'Run one statement',
    answer: sqlAnswer,
    codes: STATEMENTS,
  },
  'POST /v1/databases/{id}/batch': {
    id: 'batch',
    tag: 'SQL',
    summary: 'Run statements and KV operations in one transaction, all or none',
    answer: batchAnswer,
    codes: [...STATEMENTS, ...PUTS, ...INCREMENTS, 'precondition_failed'],
  },

  'GET /v1/databases/{id}/kv': {
    id: 'kvList',
    tag: 'KV',
    summary: 'List entries in the order of their keys',
    query: {
      prefix: z.string(),
      ...page,
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

  'POST /v1/databases/{id}/backup': {
    id: 'backup',
    tag: 'Backups',
    summary: 'Back up the whole cell',
    answer: backupAnswer,
    codes: BACKUPS,
  },
  'POST /v1/databases/{id}/backup/incr': {
    id: 'backupIncremental',
    tag: 'Backups',
    summary: 'Back up what changed since the newest backup',
    answer: backupAnswer,
    codes: BACKUPS,
  },
  'GET /v1/databases/{id}/backups': {
    id: 'listBackups',
    tag: 'Backups',
    summary: 'List the backups of a cell, newest first',
    query: page,
    answer: backupPageAnswer,
    codes: ['object_store_not_configured'],
  },
  'POST /v1/databases/{id}/restore': {
    id: 'restore',
    tag: 'Backups',
    summary: 'Restore the cell, deleted or not, from its newest backup or a version',
    headers: {
      Prefer: noted(z.string(), { description: 'respond-async: answer at once, and not at the end.' }),
    },
    answer: restoreAnswer,
    otherwise: {
      status: 202,
      summary: 'The restore has begun, for a request that prefers respond-async',
      answer: restoreStatusAnswer,
      answerHeaders: { Location: 'The path of its status.', 'Preference-Applied': 'respond-async' },
    },
    codes: [...BACKUPS, 'backup_not_found', 'invalid_version'],
  },
  'GET /v1/databases/{id}/restores/{restore_id}': {
    id: 'getRestore',
    tag: 'Backups',
    summary: 'How far a restore is that was answered before its end',
    answer: restoreStatusAnswer,
    codes: ['restore_not_found'],
  },
}
