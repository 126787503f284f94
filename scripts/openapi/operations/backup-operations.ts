import * as z from 'zod'
import type { CellErrorCode } from '../../../src/errors.ts'
import {
  backupAnswer,
  backupPageAnswer,
  pinAnswer,
  restoreAnswer,
  restorePlanAnswer,
  restoreStatusAnswer,
  retentionAnswer,
} from '../../../src/http/answers/backup-answers.ts'
import { noted } from '../../../src/service/json/schema-notes.ts'
import type { Operations } from '../operation.ts'
import { PAGE_QUERY } from './common.ts'

const BACKUPS: readonly CellErrorCode[] = [
  'object_store_not_configured',
  'quota_exceeded',
  'restore_in_progress',
]

const PINS: readonly CellErrorCode[] = ['object_store_not_configured', 'backup_not_found', 'invalid_version']

/** Backups of a cell. */
export const BACKUP_OPERATIONS: Operations = {
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
    query: PAGE_QUERY,
    answer: backupPageAnswer,
    codes: ['object_store_not_configured'],
  },
  'GET /v1/databases/{id}/retention': {
    id: 'getRetention',
    tag: 'Backups',
    summary: 'Which versions of the cell stay, which go, and why',
    answer: retentionAnswer,
    codes: ['object_store_not_configured'],
  },
  'POST /v1/databases/{id}/backups/pin': {
    id: 'pinBackup',
    tag: 'Backups',
    summary: 'Keep a version, whatever the plans say, for a key with the access owner',
    answer: pinAnswer,
    codes: PINS,
  },
  'POST /v1/databases/{id}/backups/unpin': {
    id: 'unpinBackup',
    tag: 'Backups',
    summary: 'Let the plans decide over a version again',
    answer: pinAnswer,
    codes: PINS,
  },
  'POST /v1/databases/{id}/restore': {
    id: 'restore',
    tag: 'Backups',
    summary:
      'Restore the cell, deleted or not, to its newest backup, a version or a time; or ask what that would do',
    headers: {
      Prefer: noted(z.string(), { description: 'respond-async: answer at once, and not at the end.' }),
    },
    answer: z.union([restoreAnswer, restorePlanAnswer]),
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
  'DELETE /v1/databases/{id}/restores/{restore_id}': {
    id: 'cancelRestore',
    tag: 'Backups',
    summary: 'Cancel a restore that was answered before its end, and say how it ended',
    answer: restoreStatusAnswer,
    codes: ['restore_not_found'],
  },
}
