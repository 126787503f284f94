import {
  createdKeyAnswer,
  keysAnswer,
  revokedKeyAnswer,
  rotatedKeyAnswer,
} from '../../../src/http/answers/api-key-answers.ts'
import type { Operations } from '../operation.ts'
import { PAGE_QUERY } from './common.ts'

/** API keys of an account. */
export const API_KEY_OPERATIONS: Operations = {
  'POST /v1/api-keys': {
    id: 'createApiKey',
    tag: 'API keys',
    summary: 'Make an API key of the account',
    status: 201,
    answer: createdKeyAnswer,
    codes: ['quota_exceeded', 'disk_full', 'idempotency_not_supported', 'cell_not_found'],
  },
  'GET /v1/api-keys': {
    id: 'listApiKeys',
    tag: 'API keys',
    summary: 'List the active API keys of the account, newest first',
    query: PAGE_QUERY,
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
  'POST /v1/api-keys/{key_id}/rotate': {
    id: 'rotateApiKey',
    tag: 'API keys',
    summary: 'Make a key of the same scope in place of another one, which expires',
    status: 201,
    answer: rotatedKeyAnswer,
    codes: ['api_key_not_found', 'quota_exceeded', 'disk_full', 'idempotency_not_supported'],
  },
}
