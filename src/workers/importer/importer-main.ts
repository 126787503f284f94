import { toBackupError } from '../../backup/archive/backup-errors.ts'
import { importDatabase } from '../../engine/import-database.ts'
import { listenToNode, writeToNode } from '../protocol/child-side.ts'
import type { FromImporter, ToImporter } from '../protocol/importer-protocol.ts'
import { logToNode } from '../protocol/log-message.ts'
import { encodeMessage } from '../protocol/messages.ts'
import { toWireError } from '../protocol/wire-error.ts'

/**
 * The importer: a process for one database that a tenant has sent. SQLite reads there what nobody has checked, and can be
 * ended while it does. It opens no cell, and nothing of the store but the two files that it is told.
 */
const send = (message: FromImporter) => writeToNode(encodeMessage(message))

async function run({ source, target, rules }: ToImporter): Promise<void> {
  try {
    await importDatabase(source, target, rules)
    send({ type: 'done', error: undefined })
  } catch (error) {
    send({ type: 'done', error: toWireError(toBackupError(error)) })
  }
}

listenToNode((message) => void run(message as ToImporter), logToNode(send))
