import { parentPort, workerData } from 'node:worker_threads'
import type { CellErrorCode, CellErrorDetails } from '../../../errors.ts'
import { toBackupError } from '../../archive/backup-errors.ts'
import type { RestoreTask } from './restore-task.ts'
import { RestoreTasks } from './restore-tasks.ts'

/** The outcome of a task. Messages between threads drop an error's class and members, so they are sent as data. */
export type TaskOutcome =
  | { value: string | undefined }
  | { error: { code: CellErrorCode; message: string; details: CellErrorDetails; cause: unknown } }

const tasks = new RestoreTasks(workerData as Uint8Array)
parentPort?.on('message', async (task: RestoreTask) => {
  parentPort?.postMessage(await outcomeOf(task))
})

async function outcomeOf(task: RestoreTask): Promise<TaskOutcome> {
  try {
    return { value: await tasks.run(task) }
  } catch (error) {
    const { code, message, details, cause } = toBackupError(error)
    return { error: { code, message, details, cause } }
  }
}
