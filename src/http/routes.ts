import type { Action } from './action.ts'
import { createApiKey, listApiKeys, revokeApiKey } from './api-key-actions.ts'
import { backUp, backUpIncrement, listBackups } from './backup-actions.ts'
import { createEmptyCell, deleteCell, getCell, listCells, renameCell } from './cell-actions.ts'
import { exportCell, importCell } from './file-actions.ts'
import { healthz, readyz } from './health-actions.ts'
import {
  deleteEntry,
  deleteMany,
  expire,
  getdel,
  getEntry,
  incr,
  listEntries,
  mget,
  mset,
  putEntry,
  ttl,
} from './kv-actions.ts'
import { getOpenApi } from './openapi-action.ts'
import { getRestore, restore } from './restore-actions.ts'
import { runBatch, runSql } from './sql-actions.ts'

/** A method, a path, and what is done there. `{…}` stands for one segment of the path, as it was sent. */
export type Route = readonly [method: string, path: string, action: Action]

/** The whole interface. docs/http-api.md describes each row. */
export const ROUTES: readonly Route[] = [
  ['GET', '/healthz', healthz],
  ['GET', '/readyz', readyz],
  ['GET', '/openapi.json', getOpenApi],

  ['POST', '/v1/api-keys', createApiKey],
  ['GET', '/v1/api-keys', listApiKeys],
  ['DELETE', '/v1/api-keys/{key_id}', revokeApiKey],

  ['POST', '/v1/databases', { ...createEmptyCell, receive: importCell }],
  ['GET', '/v1/databases', listCells],
  ['GET', '/v1/databases/{id}', getCell],
  ['PATCH', '/v1/databases/{id}', renameCell],
  ['DELETE', '/v1/databases/{id}', deleteCell],
  ['GET', '/v1/databases/{id}/export', exportCell],

  ['POST', '/v1/databases/{id}/sql', runSql],
  ['POST', '/v1/databases/{id}/batch', runBatch],

  ['GET', '/v1/databases/{id}/kv', listEntries],
  ['PUT', '/v1/databases/{id}/kv/{key}', putEntry],
  ['GET', '/v1/databases/{id}/kv/{key}', getEntry],
  ['DELETE', '/v1/databases/{id}/kv/{key}', deleteEntry],
  ['POST', '/v1/databases/{id}/kv/ops/incr', incr],
  ['POST', '/v1/databases/{id}/kv/ops/ttl', ttl],
  ['POST', '/v1/databases/{id}/kv/ops/expire', expire],
  ['POST', '/v1/databases/{id}/kv/ops/mget', mget],
  ['POST', '/v1/databases/{id}/kv/ops/mset', mset],
  ['POST', '/v1/databases/{id}/kv/ops/delete', deleteMany],
  ['POST', '/v1/databases/{id}/kv/ops/getdel', getdel],

  ['POST', '/v1/databases/{id}/backup', backUp],
  ['POST', '/v1/databases/{id}/backup/incr', backUpIncrement],
  ['GET', '/v1/databases/{id}/backups', listBackups],
  ['POST', '/v1/databases/{id}/restore', restore],
  ['GET', '/v1/databases/{id}/restores/{restore_id}', getRestore],
]
