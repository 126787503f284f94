import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import packageJson from '../../../package.json' with { type: 'json' }
import packageLock from '../../../package-lock.json' with { type: 'json' }
import { type Outcome, PROJECT, run } from './run.ts'

/**
 * An npm project in a temporary folder that has this package, packed as for the registry, among its dependencies.
 *
 * The versions are those of our own lock file, so that the installation needs nothing that `npm ci` has not put into
 * npm's cache, and no network.
 */
export class EmptyProject {
  readonly folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-packed-'))
  /** Files in the package, relative to its root. */
  packedFiles: string[] = []

  async packAndInstall(): Promise<void> {
    await succeed(
      run(process.execPath, ['scripts/build-if-needed.mjs'], { cwd: PROJECT, timeoutMs: 180_000 }),
    )
    const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', this.folder]
    const { stdout } = await succeed(run('npm', args, { cwd: PROJECT }))
    const [packed] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[]
    if (packed === undefined) throw new Error('npm pack made no package.')
    this.packedFiles = packed.files.map((file) => file.path)
    await this.#install({ cellstore: `file:${packed.filename}` })
  }

  /** Adds packages at the versions of our devDependencies. */
  async addDevDependencies(names: readonly (keyof typeof packageJson.devDependencies)[]): Promise<void> {
    const manifest = JSON.parse(this.read('package.json')) as { dependencies: Record<string, string> }
    const added = names.map((name) => [name, packageJson.devDependencies[name]])
    await this.#install({ ...manifest.dependencies, ...Object.fromEntries(added) })
  }

  read(file: string): string {
    return fs.readFileSync(path.join(this.folder, file), 'utf8')
  }

  write(file: string, text: string): void {
    fs.writeFileSync(path.join(this.folder, file), text)
  }

  remove(): void {
    fs.rmSync(this.folder, { recursive: true, force: true })
  }

  async #install(dependencies: Record<string, string>): Promise<void> {
    const root = { name: 'empty-project', version: '1.0.0', dependencies }
    // better-sqlite3 brings its binary and needs no script; npm asks for a word about it all the same.
    const settings = { private: true, type: 'module', allowScripts: { 'better-sqlite3': false } }
    this.write('package.json', JSON.stringify({ ...root, ...settings }, null, 2))

    const { '': own, ...packages } = packageLock.packages
    const { version, bin } = own
    const cellstore = { version, resolved: dependencies['cellstore'], dependencies: own.dependencies, bin }
    const locked = { '': root, ...packages, 'node_modules/cellstore': cellstore }
    this.write(
      'package-lock.json',
      JSON.stringify({ ...root, lockfileVersion: 3, requires: true, packages: locked }),
    )
    const args = ['install', '--prefer-offline', '--no-audit', '--no-fund']
    await succeed(run('npm', args, { cwd: this.folder, timeoutMs: 180_000 }))
  }
}

async function succeed(outcome: Promise<Outcome>): Promise<Outcome> {
  const { code, signal, stdout, stderr } = await outcome
  if (code !== 0) throw new Error(`It ended with ${code ?? signal}:\n${stdout}\n${stderr}`)
  return { code, signal, stdout, stderr }
}
