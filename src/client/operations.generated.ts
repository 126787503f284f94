// Made by `npm run openapi`.

import type { OperationRow } from './operation-row.ts'

export const OPERATIONS = {
  healthz: {"method":"GET","path":"/healthz","query":[],"hasBody":false,"idempotent":false},
  readyz: {"method":"GET","path":"/readyz","query":[],"hasBody":false,"idempotent":false},
  openapi: {"method":"GET","path":"/openapi.json","query":[],"hasBody":false,"idempotent":false},
  createApiKey: {"method":"POST","path":"/v1/api-keys","query":[],"hasBody":true,"idempotent":false},
  listApiKeys: {"method":"GET","path":"/v1/api-keys","query":["cursor","limit"],"hasBody":false,"idempotent":false},
  revokeApiKey: {"method":"DELETE","path":"/v1/api-keys/{key_id}","query":[],"hasBody":false,"idempotent":false},
  createCell: {"method":"POST","path":"/v1/databases","query":[],"hasBody":true,"idempotent":true},
  listCells: {"method":"GET","path":"/v1/databases","query":["cursor","limit"],"hasBody":false,"idempotent":false},
  getCell: {"method":"GET","path":"/v1/databases/{id}","query":[],"hasBody":false,"idempotent":false},
  deleteCell: {"method":"DELETE","path":"/v1/databases/{id}","query":[],"hasBody":false,"idempotent":false},
  sql: {"method":"POST","path":"/v1/databases/{id}/sql","query":[],"hasBody":true,"idempotent":false},
  batch: {"method":"POST","path":"/v1/databases/{id}/batch","query":[],"hasBody":true,"idempotent":false},
  kvList: {"method":"GET","path":"/v1/databases/{id}/kv","query":["prefix","cursor","limit","reverse","values"],"hasBody":false,"idempotent":false},
  kvPut: {"method":"PUT","path":"/v1/databases/{id}/kv/{key}","query":[],"hasBody":true,"idempotent":false},
  kvGet: {"method":"GET","path":"/v1/databases/{id}/kv/{key}","query":[],"hasBody":false,"idempotent":false},
  kvDelete: {"method":"DELETE","path":"/v1/databases/{id}/kv/{key}","query":[],"hasBody":false,"idempotent":false},
  kvIncr: {"method":"POST","path":"/v1/databases/{id}/kv/ops/incr","query":[],"hasBody":true,"idempotent":false},
  kvTtl: {"method":"POST","path":"/v1/databases/{id}/kv/ops/ttl","query":[],"hasBody":true,"idempotent":false},
  kvExpire: {"method":"POST","path":"/v1/databases/{id}/kv/ops/expire","query":[],"hasBody":true,"idempotent":false},
  kvMget: {"method":"POST","path":"/v1/databases/{id}/kv/ops/mget","query":[],"hasBody":true,"idempotent":false},
  kvMset: {"method":"POST","path":"/v1/databases/{id}/kv/ops/mset","query":[],"hasBody":true,"idempotent":false},
  kvDeleteMany: {"method":"POST","path":"/v1/databases/{id}/kv/ops/delete","query":[],"hasBody":true,"idempotent":false},
  kvGetdel: {"method":"POST","path":"/v1/databases/{id}/kv/ops/getdel","query":[],"hasBody":true,"idempotent":false},
  backup: {"method":"POST","path":"/v1/databases/{id}/backup","query":[],"hasBody":true,"idempotent":false},
  backupIncremental: {"method":"POST","path":"/v1/databases/{id}/backup/incr","query":[],"hasBody":true,"idempotent":false},
  listBackups: {"method":"GET","path":"/v1/databases/{id}/backups","query":["cursor","limit"],"hasBody":false,"idempotent":false},
  restore: {"method":"POST","path":"/v1/databases/{id}/restore","query":[],"hasBody":true,"idempotent":false},
  getRestore: {"method":"GET","path":"/v1/databases/{id}/restores/{restore_id}","query":[],"hasBody":false,"idempotent":false},
} as const satisfies Record<string, OperationRow>
