/**
 * Node.js's option for each process of a node: V8 has one helper thread in place of four. While it collects garbage, the main thread
 * waits for all of them. A node has a process for each processor already, so that helpers wait for a processor: measured beside an
 * attack with large bodies, on two processors, collections of 3 to 13 ms took 2 to 4.
 */
export const ONE_HELPER_THREAD = '--v8-pool-size=1'
