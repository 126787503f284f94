import fs from 'node:fs'
import { OptionDefaults } from 'typedoc'
import packageJson from './package.json' with { type: 'json' }

// Every entry point of the package: `cellstore/client` is src/client/index.ts, and `cellstore/keyv` is src/adapters/keyv.ts.
const names = Object.keys(packageJson.exports).filter((name) => name !== './package.json')
const files = names.map((name) => (name === '.' ? 'src/index.ts' : `src/${name.slice(2)}/index.ts`))

/** @type {Partial<import('typedoc').TypeDocOptions>} */
export default {
  name: 'cellstore',
  entryPoints: files.map((file) =>
    fs.existsSync(file) ? file : file.replace(/^src\/(.*)\/index\.ts$/, 'src/adapters/$1.ts'),
  ),
  out: 'reference',
  readme: 'none',
  githubPages: false,
  // `tsc` has checked them, and links to lines would need a commit.
  skipErrorChecking: true,
  disableSources: true,
  excludeInternal: true,
  excludePrivate: true,
  // The client's generated types have tags of their own, and one that is none: a placeholder of SQL.
  blockTags: [...OptionDefaults.blockTags, '@description', '@constant', '@name'],
  validation: {
    notExported: true,
    invalidLink: true,
    invalidPath: true,
    rewrittenLink: true,
    notDocumented: true,
    unusedMergeModuleWith: true,
  },
  // Everything but members whose name and type say it all.
  intentionallyNotDocumented: ['client.components', 'client.operations', 'client.paths'],
  requiredToBeDocumented: ['Class', 'Interface', 'TypeAlias', 'Function', 'Method', 'Accessor', 'Variable'],
  // Steps in the computation of the client's arguments: nobody names them.
  intentionallyNotExported: ['Free', 'FreeNames', 'Given'],
  treatValidationWarningsAsErrors: true,
}
