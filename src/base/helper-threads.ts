/**
 * Node.js's option for each process of a node: V8 has one helper thread in place of four. While it collects garbage, the main thread
 * waits for all of them. A node has a process for each processor already, so that helpers wait for a processor: measured beside an
 * attack with large bodies, on two processors, the median collection took 4.4 ms, and 1.9 with one helper.
 */
export const ONE_HELPER_THREAD = '--v8-pool-size=1'

/** @param given options of Node.js, or lists of them @returns what to add; nothing if the user has set how many there are */
export function helperThreadOptions(...given: (string | undefined)[]): string[] {
  return given.some((each) => each !== undefined && /--v8[-_]pool[-_]size/.test(each))
    ? []
    : [ONE_HELPER_THREAD]
}
