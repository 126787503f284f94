import path from 'node:path'
import { onTestFinished } from 'vitest'
import { writeNewFile } from '../../src/base/files/durable-files.ts'
import { DEFAULT_LIMITS, type Limits } from '../../src/base/options/limits.ts'
import { CellDatabase, type CellHooks } from '../../src/engine/cell-database.ts'
import type { CellDatabaseSettings } from '../../src/engine/cell-settings.ts'
import { ReservedSchema } from '../../src/engine/reserved-schema.ts'
import { checkIntegrity } from './integrity.ts'
import { tempDirectory } from './temp-directory.ts'

export interface TestDatabaseOptions extends Partial<Omit<CellDatabaseSettings, 'limits'>> {
  limits?: Partial<Limits>
  hooks?: CellHooks
  /** Of a database that is there; by default a new one is made. */
  path?: string
}

/** The engine's view of a cell without a store around it. Closed and checked when the test has finished. */
export function openTestDatabase({
  limits,
  hooks,
  path: file = newDatabase(),
  ...settings
}: TestDatabaseOptions = {}): CellDatabase {
  const database = new CellDatabase(
    file,
    {
      durability: 'full',
      sqlPolicy: 'trusted',
      pageCacheBytes: 1_048_576,
      checkpointBytes: 4_194_304,
      ...settings,
      limits: { ...DEFAULT_LIMITS, ...limits },
    },
    hooks,
  )
  onTestFinished(() => {
    database.close()
    checkIntegrity(path.dirname(file))
  })
  return database
}

function newDatabase(): string {
  const file = path.join(tempDirectory(), 'cell.db')
  writeNewFile(file, new ReservedSchema().image())
  return file
}
