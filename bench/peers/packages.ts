import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const here = import.meta.dirname
const require = createRequire(import.meta.url)

/** Installs bench/peers/package.json once. Without a registry the peers in it are absent. */
export function installPackages(): void {
  if (fs.existsSync(path.join(here, 'node_modules'))) return
  const npm = (...args: string[]) => execFileSync('npm', args, { cwd: here, stdio: 'inherit' })
  try {
    // Of all install scripts only this one is needed: it compiles what @keyv/sqlite is built on.
    npm('ci', '--ignore-scripts')
    npm('rebuild', 'sqlite3')
  } catch (error) {
    console.error(`The peers could not all be installed: ${(error as Error).message}`)
  }
}

/** `name version` of an installed package; throws if it is not installed. */
export function packageVersion(name: string): string {
  for (const folder of require.resolve.paths(name) ?? []) {
    const file = path.join(folder, name, 'package.json')
    if (!fs.existsSync(file)) continue
    return `${name} ${(JSON.parse(fs.readFileSync(file, 'utf8')) as { version: string }).version}`
  }
  throw new Error(`the package ${name} is not installed: run npm ci in bench/peers`)
}

/** A program in an installed package. */
export function packagedProgram(name: string, file: string): string {
  const found = path.join(here, 'node_modules', name, file)
  if (!fs.existsSync(found))
    throw new Error(`the package ${name} is not installed: run npm ci in bench/peers`)
  // Packed without the right to be run, since what would give it is an install script.
  fs.chmodSync(found, 0o755)
  return found
}

/** @param howToGet for the reader of "absent, because …" */
export function programOnPath(name: string, howToGet: string): string {
  for (const folder of (process.env['PATH'] ?? '').split(path.delimiter)) {
    const file = path.join(folder, name)
    if (fs.existsSync(file)) return file
  }
  throw new Error(`there is no command ${name}: ${howToGet}`)
}

/** What a program says that it is. */
export function programVersion(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8' }).split('\n')[0]?.trim() ?? ''
}
