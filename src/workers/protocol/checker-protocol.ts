import type { RestoreTask } from '../../backup/restore/threads/restore-task.ts'
import type { LogMessage } from './log-message.ts'
import type { WireError } from './wire-error.ts'

/** The messages between a checker and the process that started it: one task, and its outcome. */

export type ToChecker = Extract<RestoreTask, { kind: 'import' | 'prove' | 'examine' }>

export type FromChecker =
  | { type: 'done'; value: string | undefined; error: WireError | undefined }
  | LogMessage
