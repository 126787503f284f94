import { defineConfig } from 'tsup'

/** Three entries: the library, the command whose first file must run on any Node (see src/cli/cellstore.ts), and its hosts. */
export default defineConfig({
  entry: { index: 'src/index.ts', cellstore: 'src/cli/cellstore.ts', host: 'src/host/host-main.ts' },
  format: ['esm'],
  target: 'node22',
  platform: 'node',
  removeNodeProtocol: false,
  dts: { entry: { index: 'src/index.ts' } },
  splitting: true,
  sourcemap: true,
  clean: true,
})
