/**
 * Node.js's option for each process of a node: V8 has one helper thread in place of four. While it collects garbage, the main thread
 * waits for all of them. A node has a process for each processor already, so that helpers wait for a processor: measured beside an
 * attack with large bodies, on two processors, the median collection took 4.4 ms, and 1.9 with one helper.
 */
export const ONE_HELPER_THREAD = '--v8-pool-size=1'
/**
 * For the node itself: MiB of half its space for new objects, less than V8 would take. Beside all attacks at once, a node took 620 to 656 MiB,
 * and 530 with it. GET and PUT are as fast (with 8, PUT is 13 % slower).
 */
export const NEW_SPACE_OF_NODE = '--max-semi-space-size=16'

/**
 * For the node itself: V8 collects all of the heap once that is two and a half times as large as after the last collection. Otherwise a heap
 * of 50 MB can grow to 160, and with it all memory that its garbage holds: beside all attacks at once a node took 504 to 663 MiB, and with this
 * option 531 to 585. With 50 it takes about 500, but more frequent collections hold up others: 12 ms beside thousands of tiny requests, in place of 8.
 */
export const HEAP_GROWTH_OF_NODE = '--heap-growing-percent=150'

/**
 * {@link NEW_SPACE_OF_NODE} for its children, whose answers and blocks of logs are soon gone. V8 lets that half grow to 64 MiB. While 100 cells were
 * written to and shipped, the node, its workers and its archiver had 53 MB more than without shipping, and 15 with it; puts, reads and
 * large answers are as fast. In the archiver, whose heap is small, a larger one had V8 collect all of the heap ten times a second.
 */
export const NEW_SPACE_OF_CHILDREN = '--max-semi-space-size=4'

/** @param given options of Node.js, or lists of them @returns what to add for a child of a node; nothing that the user has set */
export function childOptions(...given: (string | undefined)[]): string[] {
  return notGiven([ONE_HELPER_THREAD, NEW_SPACE_OF_CHILDREN], given)
}

/** As {@link childOptions}, for the node itself. */
export function nodeOptions(...given: (string | undefined)[]): string[] {
  return notGiven([ONE_HELPER_THREAD, NEW_SPACE_OF_NODE, HEAP_GROWTH_OF_NODE], given)
}

/** V8 reads `_` in the name of an option as `-`. */
function notGiven(options: readonly string[], given: readonly (string | undefined)[]): string[] {
  const all = given.join(' ').replaceAll('_', '-')
  return options.filter((option) => !all.includes(option.replace(/=.*/, '')))
}
