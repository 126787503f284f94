import { type ExecFileException, execFile } from 'node:child_process'
import path from 'node:path'

export const PROJECT = path.join(import.meta.dirname, '..', '..', '..')

export interface Outcome {
  /** The exit code, or null if a signal ended it. */
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** Runs a program to its end, and ends it at the deadline. */
export function run(
  file: string,
  args: string[],
  options: { cwd: string; timeoutMs?: number; env?: Record<string, string>; input?: string | undefined },
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const done = (error: ExecFileException | null, stdout: string, stderr: string) => {
      if (typeof error?.code === 'string') reject(error)
      else
        resolve({
          code: error === null ? 0 : (error.code ?? null),
          signal: error?.signal ?? null,
          stdout,
          stderr,
        })
    }
    const { cwd, timeoutMs = 120_000, env, input } = options
    const child = execFile(
      file,
      args,
      { cwd, timeout: timeoutMs, killSignal: 'SIGKILL', env: { ...shellEnv(), ...env } },
      done,
    )
    // One that ends without reading it is no failure of the test.
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
  })
}

/** What a user's shell would have: without what npm and vitest set for the processes that they start. */
export function shellEnv(): NodeJS.ProcessEnv {
  const set =
    /^(CELLSTORE_|npm_(lifecycle|package|command|execpath|node)|npm_config_(local|global)?_?prefix|INIT_CWD|NODE_|VITEST|TEST$)/
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !set.test(name)))
  const folders = process.env['PATH']?.split(path.delimiter) ?? []
  env['PATH'] = folders.filter((folder) => !/node_modules|node-gyp-bin/.test(folder)).join(path.delimiter)
  return env
}
