import { defineConfig } from 'tsup'

/** Entry points that import the library as a program does. */
const BESIDE = {
  testing: 'src/testing/index.ts',
  drizzle: 'src/adapters/drizzle.ts',
  keyv: 'src/adapters/keyv.ts',
  kysely: 'src/adapters/kysely.ts',
  unstorage: 'src/adapters/unstorage.ts',
}

/**
 * The library; its client, what helps tests, and adapters for other libraries; the command, whose first file must run on any Node (see
 * src/cli/cellstore.ts); and the first files of the worker processes, of the archiver process, of the checker processes and of the restore threads.
 */
export default defineConfig([
  {
    entry: {
      index: 'src/index.ts',
      client: 'src/client/index.ts',
      ...BESIDE,
      cellstore: 'src/cli/cellstore.ts',
      worker: 'src/workers/worker/worker-main.ts',
      archiver: 'src/workers/archiver/archiver-main.ts',
      checker: 'src/workers/checker/checker-main.ts',
      'restore-thread': 'src/backup/restore/threads/restore-thread-main.ts',
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
    entry: BESIDE,
    format: ['esm'],
    dts: { only: true },
    external: ['../index.ts'],
  },
  // The console, for browsers: a folder of its own, whose chunks have names that change with what they hold.
  {
    entry: { 'console/console': 'src/console/console-main.tsx' },
    format: ['esm'],
    target: 'es2022',
    platform: 'browser',
    noExternal: [/./],
    splitting: true,
    minify: true,
    esbuildOptions(options) {
      options.chunkNames = 'console/[name]-[hash]'
      options.jsx = 'automatic'
      options.jsxImportSource = 'preact'
    },
  },
])
