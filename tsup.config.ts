import { defineConfig } from 'tsup'

/** Two entries: the library, and the command whose first file must run on any Node (see src/cli/cellstore.ts). */
export default defineConfig({
  entry: { index: 'src/index.ts', cellstore: 'src/cli/cellstore.ts' },
  format: ['esm'],
  target: 'node22',
  platform: 'node',
  removeNodeProtocol: false,
  dts: { entry: { index: 'src/index.ts' } },
  splitting: true,
  sourcemap: true,
  clean: true,
})
