import { defineConfig } from 'tsup'

/**
 * The library; the command, whose first file must run on any Node (see src/cli/cellstore.ts); and the first files of the
 * worker processes, of the archiver process and of the restore threads.
 */
export default defineConfig({
  entry: {
    index: 'src/index.ts',
    cellstore: 'src/cli/cellstore.ts',
    worker: 'src/workers/worker/worker-main.ts',
    archiver: 'src/workers/archiver/archiver-main.ts',
    'restore-thread': 'src/backup/restore/restore-thread-main.ts',
  },
  format: ['esm'],
  target: 'node22',
  platform: 'node',
  removeNodeProtocol: false,
  dts: { entry: { index: 'src/index.ts' } },
  splitting: true,
  sourcemap: true,
  clean: true,
})
