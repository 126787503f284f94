import { defineConfig } from 'tsup'

/**
 * The library; its client, and what helps tests; the command, whose first file must run on any Node (see
 * src/cli/cellstore.ts); and the first files of the worker processes, of the archiver process, of the checker processes and of the restore threads.
 */
export default defineConfig([
  {
    entry: {
      index: 'src/index.ts',
      client: 'src/client/index.ts',
      testing: 'src/testing/index.ts',
      cellstore: 'src/cli/cellstore.ts',
      worker: 'src/workers/worker/worker-main.ts',
      archiver: 'src/workers/archiver/archiver-main.ts',
      checker: 'src/workers/checker/checker-main.ts',
      'restore-thread': 'src/backup/restore/restore-thread-main.ts',
    },
    format: ['esm'],
    target: 'node22',
    platform: 'node',
    removeNodeProtocol: false,
    dts: { entry: { index: 'src/index.ts', client: 'src/client/index.ts' } },
    splitting: true,
    sourcemap: true,
  },
  // The types of stores must be those of the library, and not a copy: the build makes this `./index.js`.
  {
    entry: { testing: 'src/testing/index.ts' },
    format: ['esm'],
    dts: { only: true },
    external: ['../index.ts'],
  },
])
