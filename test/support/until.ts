/** Looks until something holds: of another process, a test can't know when. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  msMax = 60_000,
): Promise<void> {
  const deadline = performance.now() + msMax
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`After ${msMax} ms still not: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
