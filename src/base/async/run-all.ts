/** Runs every step, also after a failure, and throws the first failure. */
export async function runAll(steps: readonly (() => void | Promise<void> | undefined)[]): Promise<void> {
  const failures: unknown[] = []
  for (const step of steps) {
    try {
      await step()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}
