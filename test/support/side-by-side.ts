import { countOf } from './counts.ts'

const AT_ONCE = countOf('CELLSTORE_SIDE_BY_SIDE')

/** Runs what mostly waits for all items, some at once. @throws the first failure, after all have ended */
export async function sideBySide<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const left = [...items]
  const failures: unknown[] = []
  const lane = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift())
      await run(item).catch((err: unknown) => failures.push(err))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  if (failures.length > 0) throw failures[0]
}

/** The items in as many parts as run at once, none of them empty. */
export function lanes<T>(items: readonly T[]): T[][] {
  const parts = Array.from({ length: AT_ONCE }, (_, lane) => items.filter((_, i) => i % AT_ONCE === lane))
  return parts.filter((part) => part.length > 0)
}
