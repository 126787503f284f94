import { toBackupError } from '../../backup/archive/backup-errors.ts'
import { RestoreTasks } from '../../backup/restore/threads/restore-tasks.ts'
import { isSqliteError } from '../../engine/sqlite-errors.ts'
import type { FromChecker, ToChecker } from '../children/checker-process.ts'
import { die, listenToNode, writeToNode } from '../protocol/child-side.ts'
import { logToNode } from '../protocol/log-message.ts'
import { encodeMessage } from '../protocol/messages.ts'
import { toWireError } from '../protocol/wire-error.ts'

/**
 * The checker: a process for one task on a database in which SQLite meets what a tenant wrote and nobody has bounded. It can
 * be ended while SQLite works. It opens no cell, and nothing of the store but the files that it is told.
 */
const send = (message: FromChecker) => writeToNode(encodeMessage({ message }))

async function run(task: ToChecker): Promise<void> {
  try {
    const value = await new RestoreTasks().run(task)
    send({ type: 'done', value, error: undefined })
  } catch (error) {
    // Its limit is its own, and says nothing about the file.
    if (isSqliteError(error) && /NOMEM$/.test(error.code)) return die()
    send({ type: 'done', value: undefined, error: toWireError(toBackupError(error)) })
  }
}

listenToNode((message) => void run(message as ToChecker), logToNode(send))
