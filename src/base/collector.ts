/**
 * V8's flag for a process of a node: it collects garbage in the thread that makes it. By default four more threads help, and
 * the collection waits for all of them. A node has a process for each processor already, so a helper waits for its turn on
 * one: measured beside an attack with large bodies, on two processors, collections of 3 to 13 ms took 2 to 4.
 */
export const COLLECTOR_FLAG = '--single-threaded-gc'
