import type { Action } from '../core/action.ts'
import type { RouteScope } from '../core/route-scopes.ts'
import { hranaRequest } from '../hrana/hrana-actions.ts'
import {
  createAccount,
  createKeyOfAccount,
  getAccount,
  listAccounts,
  resumeAccount,
  setQuotas,
  suspendAccount,
} from './account-actions.ts'
import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from './api-key-actions.ts'
import { backUp, backUpIncrement, listBackups } from './backup-actions.ts'
import { createCell, deleteCell, getCell, listCells, renameCell } from './cell-actions.ts'
import { cellRequest } from './cell-requests.ts'
import { watchChanges } from './change-actions.ts'
import { exportCell, importCell } from './file-actions.ts'
import { getNodeStatus, getOpenApi, healthz, readyz } from './node/node-actions.ts'
import { getRetention, pin, unpin } from './owner/retention-actions.ts'
import { cancelRestore, getRestore, restore } from './restore-actions.ts'

/** A method, a path, what is done there, and what a key needs for it. `{…}` stands for one segment of the path, as it was sent. */
export type Route = readonly [method: string, path: string, action: Action, scope: RouteScope]

/** The whole interface. docs/http-api.md describes each row. */
export const ROUTES: readonly Route[] = [
  ['GET', '/healthz', healthz, 'open'],
  ['GET', '/readyz', readyz, 'open'],
  ['GET', '/openapi.json', getOpenApi, 'open'],

  ['GET', '/v1/status', getNodeStatus, 'owner'],

  ['POST', '/v1/api-keys', createApiKey, 'account:write'],
  ['GET', '/v1/api-keys', listApiKeys, 'account:read'],
  ['DELETE', '/v1/api-keys/{key_id}', revokeApiKey, 'account:write'],
  ['POST', '/v1/api-keys/{key_id}/rotate', rotateApiKey, 'account:write'],

  ['POST', '/v1/accounts', createAccount, 'owner'],
  ['GET', '/v1/accounts', listAccounts, 'owner'],
  ['GET', '/v1/accounts/{account_id}', getAccount, 'owner'],
  ['POST', '/v1/accounts/{account_id}/suspend', suspendAccount, 'owner'],
  ['POST', '/v1/accounts/{account_id}/resume', resumeAccount, 'owner'],
  ['PUT', '/v1/accounts/{account_id}/quotas', setQuotas, 'owner'],
  ['POST', '/v1/accounts/{account_id}/api-keys', createKeyOfAccount, 'owner'],

  ['POST', '/v1/databases', { ...createCell, receive: importCell }, 'account:write'],
  ['GET', '/v1/databases', listCells, 'account:read'],
  ['GET', '/v1/databases/{id}', getCell, 'cell:read'],
  ['PATCH', '/v1/databases/{id}', renameCell, 'account:write'],
  ['DELETE', '/v1/databases/{id}', deleteCell, 'account:write'],
  ['GET', '/v1/databases/{id}/export', exportCell, 'cell:read'],

  ['POST', '/v1/databases/{id}/sql', cellRequest('sql'), 'cell:read'],
  ['POST', '/v1/databases/{id}/batch', cellRequest('batch'), 'cell:read'],

  ['POST', '/v1/databases/{id}/v2/pipeline', hranaRequest('pipeline'), 'cell:read'],
  ['POST', '/v1/databases/{id}/v3/pipeline', hranaRequest('pipeline'), 'cell:read'],
  ['POST', '/v1/databases/{id}/v3/cursor', hranaRequest('cursor'), 'cell:read'],

  ['GET', '/v1/databases/{id}/changes', watchChanges, 'cell:read'],

  ['GET', '/v1/databases/{id}/kv', cellRequest('kv.list'), 'kv:read'],
  ['PUT', '/v1/databases/{id}/kv/{key}', cellRequest('kv.put'), 'kv:write'],
  ['GET', '/v1/databases/{id}/kv/{key}', cellRequest('kv.get'), 'kv:read'],
  ['DELETE', '/v1/databases/{id}/kv/{key}', cellRequest('kv.delete'), 'kv:write'],
  ['POST', '/v1/databases/{id}/kv/ops/incr', cellRequest('kv.incr'), 'kv:write'],
  ['POST', '/v1/databases/{id}/kv/ops/ttl', cellRequest('kv.ttl'), 'kv:read'],
  ['POST', '/v1/databases/{id}/kv/ops/expire', cellRequest('kv.expire'), 'kv:write'],
  ['POST', '/v1/databases/{id}/kv/ops/mget', cellRequest('kv.mget'), 'kv:read'],
  ['POST', '/v1/databases/{id}/kv/ops/mset', cellRequest('kv.mset'), 'kv:write'],
  ['POST', '/v1/databases/{id}/kv/ops/delete', cellRequest('kv.deleteMany'), 'kv:write'],
  ['POST', '/v1/databases/{id}/kv/ops/getdel', cellRequest('kv.getdel'), 'kv:write'],

  ['POST', '/v1/databases/{id}/backup', backUp, 'cell:write'],
  ['POST', '/v1/databases/{id}/backup/incr', backUpIncrement, 'cell:write'],
  ['GET', '/v1/databases/{id}/backups', listBackups, 'cell:read'],
  ['GET', '/v1/databases/{id}/retention', getRetention, 'cell:read'],
  ['POST', '/v1/databases/{id}/backups/pin', pin, 'owner'],
  ['POST', '/v1/databases/{id}/backups/unpin', unpin, 'owner'],
  ['POST', '/v1/databases/{id}/restore', restore, 'cell:write'],
  ['GET', '/v1/databases/{id}/restores/{restore_id}', getRestore, 'cell:read'],
  ['DELETE', '/v1/databases/{id}/restores/{restore_id}', cancelRestore, 'cell:write'],
]
