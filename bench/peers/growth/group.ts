import type { Row, Settings } from '../results.ts'
import { growCells } from './cells.ts'
import { growEntries } from './entries.ts'

export async function measureGrowth(directory: string, settings: Settings): Promise<Row[]> {
  return [...(await growEntries(directory, settings)), ...(await growCells(directory, settings))]
}
