import type { ImportRules } from '../../../engine/files/import-database.ts'
import { RestoreThread } from './restore-thread.ts'

/** `importDatabase` in a thread of its own. @throws as that; `internal` if the thread ends */
export async function importInThread(file: string, target: string, rules: ImportRules): Promise<void> {
  const thread = new RestoreThread()
  try {
    await thread.run({ kind: 'import', file, target, rules })
  } finally {
    await thread.close()
  }
}
