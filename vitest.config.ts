import process from 'node:process'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * What `npm test` leaves to `npm run test:long`: long random histories, loops of kills, replays of power losses, whole
 * nodes that come back after losses, and contracts that a faster implementation also passes. Each promise has a shorter test among the others.
 */
const LONG = [
  'test/backup/archive/mutants*.test.ts',
  'test/backup/archiver/at-once*.test.ts',
  'test/backup/background-recovery*.test.ts',
  'test/backup/changes/chain*.test.ts',
  'test/backup/changes/history-model*.test.ts',
  'test/backup/drills*.test.ts',
  'test/backup/every-object*.test.ts',
  'test/backup/histories*.test.ts',
  'test/backup/object-store/s3/s3-object-store*.test.ts',
  'test/backup/object-store/s3/s3-outages*.test.ts',
  'test/backup/restore/damaged-log-after-loss*.test.ts',
  'test/backup/restore/dropped-reads*.test.ts',
  'test/backup/restore/flipped-reads*.test.ts',
  'test/backup/restore/restore-threads*.test.ts',
  'test/backup/restore/set-back*.test.ts',
  'test/backup/scheduled-backups*.test.ts',
  'test/backup/shipping/log-retention*.test.ts',
  'test/backup/shipping/{account-flushes,by-hand,set-back,two-timelines}*.test.ts',
  'test/cli/accounts-commands*.test.ts',
  'test/cli/cells-by-name*.test.ts',
  'test/cli/earlier-states*.test.ts',
  'test/cli/object-store-loss*.test.ts',
  'test/cli/owner/owner-client.test.ts',
  'test/cli/recover.test.ts',
  'test/cli/remote/remote-commands*.test.ts',
  'test/cli/sql-command*.test.ts',
  'test/cli/two-nodes*.test.ts',
  'test/cluster/nodes/**/*.test.ts',
  'test/cluster/storms/{kills,mutants,storms}*.test.ts',
  'test/console/**/*.test.ts',
  'test/deploy/**/*.test.ts',
  'test/engine/fair-shares*.test.ts',
  'test/engine/sql-policy/sql-policy-fuzz*.test.ts',
  'test/faults/**/*.test.ts',
  'test/http/abuse/**/*.test.ts',
  'test/http/async-restores*.test.ts',
  'test/http/client-contract*.test.ts',
  'test/metrics/node-log*.test.ts',
  'test/package/checked-options*.test.ts',
  'test/package/packed*.test.ts',
  'test/scripts/**/*.test.ts',
  'test/store/import-{refused,of-other-builds}*.test.ts',
  'test/store/unfinished-adoption*.test.ts',
  'test/workers/archiver/**/*.test.ts',
  'test/workers/cells-that-move*.test.ts',
  'test/workers/deleted-cell*.test.ts',
  'test/workers/node/import-processes*.test.ts',
  'test/workers/statements*.test.ts',
  'test/workers/watched-cells*.test.ts',
  'test/workers/worker-kills*.test.ts',
  'test/workers/{kill-at-any-message,left-workers,restores-in-workers}*.test.ts',
]

const SCRIPT = process.env['npm_lifecycle_event']
/** Who names a file wants it, however long it takes. */
const isShort =
  SCRIPT === 'test' && process.argv.slice(2).every((each) => each === 'run' || each.startsWith('-'))

/** Parts of the paths of the files that take longest. */
const LONGEST = [
  'faults/power-loss',
  'cli/commands',
  'cli/serve',
  'cli/cells-by-name',
  'cli/two-nodes',
  's3-endpoint',
  'faults/endless-statements',
  'faults/node-limits',
  'object-store/s3/s3-object-store',
  'backup/every-object',
  'backup/changes/chain',
  'http/abuse/floods',
  'cluster/storms/storms',
  'cluster/storms/kills',
]

/** On a clean clone vitest knows of no duration. A long file that begins last would run alone at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = LONGEST.findIndex((part) => moduleId.includes(part))
      return at === -1 ? LONGEST.length : at
    }
    return (await super.sort(files)).toSorted((a, b) => place(a) - place(b))
  }
}

export default defineConfig({
  test: {
    include: SCRIPT === 'test:long' ? LONG : ['test/**/*.test.ts'],
    exclude: isShort ? [...configDefaults.exclude, ...LONG] : configDefaults.exclude,
    setupFiles: ['test/support/restore-mocks.ts'],
    pool: 'forks',
    // Many tests wait: for processes that start, and for the disk.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // They end what hangs, and measure nothing: on a busy machine all takes ten times as long.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    typecheck: { enabled: true, include: ['test/types/**/*.test-d.ts'], tsconfig: './tsconfig.json' },
  },
})
