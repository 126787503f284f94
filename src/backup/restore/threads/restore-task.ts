import type { ImportRules } from '../../../engine/files/import-database.ts'
import { RANGE_BYTES } from '../../archive/object-reader.ts'
import type { WalPart } from '../build/restore-database.ts'
import type { ArchivePlace } from '../build/restore-limits.ts'

/** Work on the files of a restore that blocks its thread. */
export type RestoreTask =
  /** Applies the first archive of a chain, which is in the thread's memory. The result is {@link SOUND}, or nothing. */
  | { kind: 'unpack'; bytes: number; place: ArchivePlace }
  /** Continues the hash of a file, from the end of the last such task up to `bytes`. */
  | { kind: 'hash'; file: string; bytes: number }
  /** Ends the hash. The result is the SHA-256 in hexadecimal. */
  | { kind: 'digest' }
  | {
      kind: 'apply log'
      file: string
      member: string
      frames: number
      parts?: readonly WalPart[] | undefined
    }
  /** Runs SQLite's check of every page. The result is {@link SOUND}. */
  | ({ kind: 'prove'; file: string; member: string } & Check)
  /** Counts the rows of each table. The result is JSON. With `deep`, compares indexes and tables first. */
  | ({ kind: 'examine'; file: string; member: string; deep: boolean } & Check)
  /** Makes the file of a cell of a database that was made elsewhere. Rejects with `invalid_database`. */
  | { kind: 'import'; file: string; target: string; rules: ImportRules }

interface Check {
  /** Where the schema may make the check take hours, the task does nothing, and its result is {@link LEFT}. */
  leavesLongChecks?: boolean | undefined
}

export type CheckTask = Extract<RestoreTask, Check & { kind: 'prove' | 'examine' }>

export const LEFT = 'left'

/** SQLite's check has found the database sound: now, or before its bytes were stored. */
export const SOUND = 'sound'

/** Runs tasks one after the other, in this thread or in another (restore-thread.ts). */
export interface RestoreTaskRunner {
  /** @throws `backup_corrupt`; failures of disk and memory, as system errors or as a `CellError` */
  run(task: RestoreTask): Promise<string | undefined>
  close(): Promise<void>
}

/**
 * The objects that a thread unpacks in one go. A smaller one is mostly a database that needs no thread. A larger one is
 * streamed: then its parts are decompressed, written and hashed side by side.
 */
export const UNPACKED_BYTES = { min: 2 * 1_048_576, max: RANGE_BYTES }
