/**
 * How much each random test does: `test` in `npm test`, `soak` in `npm run soak`, where an environment variable of the
 * same name sets another count.
 */
export const COUNTS = {
  CELLSTORE_TEST_CACHE_ROUNDS: { test: 2_000, soak: 20_000, of: 'random steps of the catalog cache' },
  CELLSTORE_ROUNDS: { test: 3, soak: 10, of: 'cells that are filled and emptied' },
  CELLSTORE_FUZZ_COUNT: { test: 10_000, soak: 200_000, of: 'generated SQL statements in each test' },
  CELLSTORE_MUTANTS: { test: 100, soak: 3_000, of: 'damaged copies of a backup' },
  CELLSTORE_BASE_COPIES: { test: 12, soak: 300, of: 'copies of a database that is written' },
  CELLSTORE_HISTORY_RUNS: { test: 3, soak: 60, of: 'sequences of writes, crashes and what is shipped' },
  CELLSTORE_MODEL_RUNS: { test: 2, soak: 40, of: 'sequences of writes, backups and restores' },
  CELLSTORE_TEST_HTTP_FUZZ: { test: 2_000, soak: 20_000, of: 'mutated HTTP requests' },
  CELLSTORE_REVOCATIONS: { test: 3, soak: 50, of: 'revocations under busy connections' },
  CELLSTORE_TEST_HTTP_FUZZ_FIELDS: { test: 3_000, soak: 100_000, of: 'generated HTTP requests' },
  CELLSTORE_SCOPED_KEYS: { test: 40, soak: 2_000, of: 'scoped API keys and what they try' },
  CELLSTORE_TEST_IDLE_SOCKETS: { test: 200, soak: 5_000, of: 'idle connections' },
  CELLSTORE_TEST_SLOW_SOCKETS: { test: 50, soak: 500, of: 'slow heads and bodies' },
  CELLSTORE_BUCKET_STORMS: { test: 1, soak: 20, of: 'histories with a bucket that fails' },
  CELLSTORE_SHIPPING_STORMS: {
    test: 1,
    soak: 20,
    of: 'histories of a node that ships to a bucket that fails',
  },
  CELLSTORE_HISTORIES: { test: 2, soak: 200, of: 'histories of cells, their backups, and damage' },
  CELLSTORE_KILLS: { test: 6, soak: 60, of: 'kills of a process that writes' },
  CELLSTORE_WORKER_KILLS: { test: 8, soak: 80, of: 'kills of workers' },
  CELLSTORE_NODE_KILLS: { test: 5, soak: 50, of: 'kills of nodes and workers under HTTP writes' },
  CELLSTORE_HRANA_KILLS: {
    test: 5,
    soak: 60,
    of: 'kills of nodes and workers under transactions over Hrana',
  },
  CELLSTORE_REMOTE_LOSSES: { test: 2, soak: 20, of: 'losses of a node and its directory under HTTP writes' },
  CELLSTORE_REQUEST_KILLS: {
    test: 1,
    soak: 20,
    of: 'kills of a node at a request to its bucket, for each operation',
  },
  CELLSTORE_POWER_LOSSES: { test: 15, soak: 500, of: 'power losses' },
  CELLSTORE_POWER_LOSS_STEPS: { test: 80, soak: 200, of: 'steps of the program that loses power' },
  CELLSTORE_START_FAULTS: { test: 4, soak: 60, of: 'faults in a start, or all' },
  CELLSTORE_RESTORE_FAULTS: { test: 7, soak: 140, of: 'faults in a restore, or all' },
  CELLSTORE_WRITE_FAULTS: { test: 5, soak: 100, of: 'faults under writes, or all' },
  CELLSTORE_FOREIGN_RUNS: { test: 2, soak: 10, of: 'runs beside other programs' },
  CELLSTORE_DESCRIPTOR_CELLS: { test: 150, soak: 2_000, of: 'cells of a node with few descriptors' },
  CELLSTORE_ATTACK_MIXES: { test: 1, soak: 24, of: 'mixes of attacks on a node' },
  CELLSTORE_ENDLESS_ROUNDS: { test: 1, soak: 10, of: 'rounds of backups while statements never end' },
  CELLSTORE_WATCH_STEPS: { test: 600, soak: 20_000, of: 'steps of work on a watched cell' },
  CELLSTORE_CLOCK_STEPS: { test: 60, soak: 1_000, of: 'steps of the clock' },
  CELLSTORE_CLUSTER_STORMS: { test: 1, soak: 20, of: 'histories of a cluster under faults' },
  CELLSTORE_CLUSTER_RULES: { test: 1, soak: 8, of: 'rules of many nodes that are taken away' },
  CELLSTORE_SIDE_BY_SIDE: { test: 1, soak: 4, of: 'clusters at once' },
  CELLSTORE_CLUSTER_KILLS: {
    test: 1,
    soak: 40,
    of: 'kills of a node at a message, for each operation and link',
  },
  CELLSTORE_TIMESTAMPS: { test: 12, soak: 500, of: 'restores to a time' },
  CELLSTORE_CLUSTER_WORLDS: { test: 20_000, soak: 300_000, of: 'worlds of the model of many nodes' },
  CELLSTORE_CLUSTER_WALKS: { test: 400, soak: 100_000, of: 'random walks through that model' },
} as const

/** The count of this run; `all` is Infinity. */
export function countOf(name: keyof typeof COUNTS): number {
  const { CELLSTORE_SOAK, [name]: told } = process.env
  if (CELLSTORE_SOAK === undefined) return COUNTS[name].test
  if (told === undefined) return COUNTS[name].soak
  return told === 'all' ? Number.POSITIVE_INFINITY : Number(told)
}
