import { accountAnswer, accountPageAnswer } from '../../../src/http/answers/account-answers.ts'
import { createdKeyAnswer } from '../../../src/http/answers/api-key-answers.ts'
import type { Operations } from '../operation.ts'
import { PAGE_QUERY } from './common.ts'

/** Accounts, for a key with the access `owner`. */
export const ACCOUNT_OPERATIONS: Operations = {
  'POST /v1/accounts': {
    id: 'createAccount',
    tag: 'Accounts',
    summary: 'Make an account',
    status: 201,
    answer: accountAnswer,
    codes: ['disk_full'],
  },
  'GET /v1/accounts': {
    id: 'listAccounts',
    tag: 'Accounts',
    summary: 'List the accounts, oldest first',
    query: PAGE_QUERY,
    answer: accountPageAnswer,
  },
  'GET /v1/accounts/{account_id}': {
    id: 'getAccount',
    tag: 'Accounts',
    summary: 'Describe an account',
    answer: accountAnswer,
    codes: ['account_not_found'],
  },
  'POST /v1/accounts/{account_id}/suspend': {
    id: 'suspendAccount',
    tag: 'Accounts',
    summary: 'Refuse every request with the keys of an account',
    answer: accountAnswer,
    codes: ['account_not_found', 'disk_full'],
  },
  'POST /v1/accounts/{account_id}/resume': {
    id: 'resumeAccount',
    tag: 'Accounts',
    summary: 'End the suspension of an account',
    answer: accountAnswer,
    codes: ['account_not_found', 'disk_full'],
  },
  'PUT /v1/accounts/{account_id}/quotas': {
    id: 'setAccountQuotas',
    tag: 'Accounts',
    summary: 'Set all quotas of an account; those left out are the store’s',
    answer: accountAnswer,
    codes: ['account_not_found', 'disk_full'],
  },
  'POST /v1/accounts/{account_id}/api-keys': {
    id: 'createApiKeyOfAccount',
    tag: 'Accounts',
    summary: 'Make an API key of an account',
    status: 201,
    answer: createdKeyAnswer,
    codes: [
      'account_not_found',
      'cell_not_found',
      'quota_exceeded',
      'disk_full',
      'idempotency_not_supported',
    ],
  },
}
