import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type Outcome, PROJECT, run } from './run.ts'

/**
 * A temporary folder in which a program can import this package, by its name and from its build. Unlike an
 * {@link EmptyProject} it installs nothing: the packages are links to those of this project.
 */
export class LinkedProject {
  readonly folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-linked-'))

  /** @param packages further packages that programs may import */
  constructor(packages: readonly string[]) {
    this.#link('cellstore', PROJECT)
    for (const name of packages) this.#link(name, path.join(PROJECT, 'node_modules', name))
    this.write('package.json', JSON.stringify({ private: true, type: 'module' }))
  }

  /** Builds the package if its build is older than its sources. */
  static async build(): Promise<void> {
    const build = { cwd: PROJECT, timeoutMs: 180_000 }
    const { code, stderr } = await run(process.execPath, ['scripts/build-if-needed.mjs'], build)
    if (code !== 0) throw new Error(stderr)
  }

  write(file: string, text: string): void {
    fs.mkdirSync(path.dirname(path.join(this.folder, file)), { recursive: true })
    fs.writeFileSync(path.join(this.folder, file), text)
  }

  /** Runs `node` in the folder, or in one below it. */
  node(args: string[], { below = '.', env = {} }: { below?: string; env?: Record<string, string> } = {}) {
    return run(process.execPath, args, { cwd: path.join(this.folder, below), env })
  }

  /** Checks the types of the folder's files, as strictly as a user may. */
  async checkTypes(include: readonly string[]): Promise<Outcome> {
    const compilerOptions = {
      ...{ target: 'es2023', lib: ['es2024', 'ESNext.Disposable'], module: 'nodenext', types: ['node'] },
      ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
      ...{ noEmit: true, allowImportingTsExtensions: true, skipLibCheck: true },
    }
    this.write('tsconfig.json', JSON.stringify({ compilerOptions, include }))
    return await this.node([path.join(PROJECT, 'node_modules', 'typescript', 'bin', 'tsc')])
  }

  remove(): void {
    fs.rmSync(this.folder, { recursive: true, force: true })
  }

  #link(name: string, target: string): void {
    const link = path.join(this.folder, 'node_modules', name)
    fs.mkdirSync(path.dirname(link), { recursive: true })
    fs.symlinkSync(fs.realpathSync(target), link)
  }
}
