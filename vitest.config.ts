import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

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
    include: ['test/**/*.test.ts'],
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
