import type { ImportRules } from '../../engine/import-database.ts'
import type { LogMessage } from './log-message.ts'
import type { WireError } from './wire-error.ts'

/** The messages between a node and an importer: one task, and its outcome. */

export interface ToImporter {
  source: string
  target: string
  rules: ImportRules
}

export type FromImporter = { type: 'done'; error: WireError | undefined } | LogMessage
