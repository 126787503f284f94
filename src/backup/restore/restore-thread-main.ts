import { parentPort } from 'node:worker_threads'
import type { CellErrorCode, CellErrorDetails } from '../../errors.ts'
import { toBackupError } from '../archive/backup-errors.ts'
import { type IncomingTask, IncomingTasks } from './restore-tasks.ts'

/** What becomes of a task. Of an error, what a message between threads keeps of its class and members. */
export type TaskOutcome =
  | { value: string | undefined }
  | { error: { code: CellErrorCode; message: string; details: CellErrorDetails; cause: unknown } }

const tasks = new IncomingTasks()
parentPort?.on('message', async (task: IncomingTask) => {
  parentPort?.postMessage(await outcomeOf(task))
})

async function outcomeOf(task: IncomingTask): Promise<TaskOutcome> {
  try {
    return { value: await tasks.run(task) }
  } catch (error) {
    const { code, message, details, cause } = toBackupError(error)
    return { error: { code, message, details, cause } }
  }
}
