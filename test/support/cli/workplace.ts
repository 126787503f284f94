import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import { type Outcome, PROJECT, run, shellEnv } from '../package/run.ts'
import { workersOf } from '../processes.ts'
import { StoreDirectory } from '../store-directory.ts'
import { tempDirectory } from '../temp-directory.ts'
import { until } from '../until.ts'

/** As users have it: its hundreds of sources would take most of the time of each process. */
export const ENTRY = path.join(PROJECT, 'dist', 'cellstore.js')
// For a run of a single file after a change of the sources; `npm test` has built it already.
execFileSync(process.execPath, [path.join(PROJECT, 'scripts', 'build-if-needed.mjs')])

/** Each command is a process of its own, and much of its time would be compiling the same code again. */
export const COMPILE_CACHE = path.join(PROJECT, 'node_modules', '.cache', 'cellstore-cli')
const START_MS_MAX = 120_000

type Environment = Record<string, string>
type Command = readonly [program: string, ...args: string[]]

/** A folder with room for a data directory and an object store, and the command as a process of its own in it. */
export class Workplace {
  readonly folder = tempDirectory('cellstore-cli')
  readonly data = StoreDirectory.ofTest(path.join(this.folder, 'data'))
  readonly dataDir = this.data.path
  readonly objects = path.join(this.folder, 'objects')
  readonly env: Environment

  /** @param env what the commands are told beside the defaults */
  constructor(env: Environment = {}) {
    this.data.mayHaveLogs = true
    // Registered after the check, so called before it: the workers of a killed node end a moment after it.
    onTestFinished(() => until(() => workersOf(this.dataDir).length === 0, 'the workers have ended'))
    this.env = { NODE_COMPILE_CACHE: COMPILE_CACHE, ...env }
  }

  /** Runs a command to its end. */
  run(...args: string[]): Promise<Outcome> {
    return this.runWith({}, ...args)
  }

  /** As {@link run}, with what comes on its standard input, and more variables. */
  runWith({ input, env }: { input?: string; env?: Environment }, ...args: string[]): Promise<Outcome> {
    return run(process.execPath, [ENTRY, ...args], { cwd: this.folder, env: { ...this.env, ...env }, input })
  }

  /** Runs a command that has to succeed. @returns what it printed, without the line's end */
  async text(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args)
    if (code !== 0) throw new Error(`cellstore ${args.join(' ')} ended with ${code}:\n${stderr}`)
    return stdout.trimEnd()
  }

  /** Runs a command that has to succeed with `--json`. */
  async json<T = Record<string, unknown>>(...args: string[]): Promise<T> {
    return JSON.parse(await this.text(...args, '--json')) as T
  }

  /** Runs a command that has to fail with `--json`. @returns its exit code and error */
  async failure(...args: string[]): Promise<{ exit: number | null; code: string; message: string }> {
    const { code, stdout, stderr } = await this.run(...args, '--json')
    if (code === 0 || stdout !== '') throw new Error(`cellstore ${args.join(' ')} did not fail: ${stdout}`)
    const last = stderr.trimEnd().split('\n').at(-1) ?? ''
    return { exit: code, ...(JSON.parse(last) as { code: string; message: string }) }
  }

  /** Starts a node on a free port, and waits until it serves. It is killed when the test has finished. */
  serve(...args: string[]): Promise<ServedNode> {
    return ServedNode.start([ENTRY, 'serve', '--port', '0', ...args], this.folder, this.env)
  }

  /** As {@link serve}, with a bound on the descriptors that the node may have open. */
  serveWithDescriptors(descriptors: number, ...args: string[]): Promise<ServedNode> {
    const command = ['sh', '-c', `ulimit -n ${descriptors}; exec "$0" "$@"`, process.execPath] as const
    return ServedNode.start([ENTRY, 'serve', '--port', '0', ...args], this.folder, this.env, command)
  }

  /** Starts a node, and does not wait for anything. @param stdout a file descriptor, in place of a pipe */
  spawn(args: string[] = [], stdout: number | 'pipe' = 'pipe'): ChildProcess {
    return spawnNode([ENTRY, 'serve', '--port', '0', ...args], this.folder, this.env, stdout)
  }

  has(...file: string[]): boolean {
    return fs.existsSync(path.join(this.folder, ...file))
  }

  readOwner(): { pid: number; socket: string | null } {
    return JSON.parse(fs.readFileSync(path.join(this.dataDir, 'owner.json'), 'utf8'))
  }
}

/** A node that serves. */
export class ServedNode {
  readonly child: ChildProcess
  readonly address: string
  /** The key that it printed, if it did. */
  readonly key: string
  readonly #output: { stdout: string; stderr: string }
  /** Its exit code and signal. */
  readonly ended: Promise<[number | null, NodeJS.Signals | null]>

  private constructor(child: ChildProcess, output: { stdout: string; stderr: string }) {
    this.child = child
    this.#output = output
    this.address = /http:\/\/[^\s"]+:[1-9]\d*/.exec(output.stdout)?.[0] ?? ''
    this.key = /cell_sk_[0-9A-Za-z]{49}/.exec(output.stdout)?.[0] ?? ''
    this.ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  }

  /** @param command what runs the arguments, in place of this Node */
  static async start(
    args: string[],
    cwd: string,
    env: Environment,
    command: Command = [process.execPath],
  ): Promise<ServedNode> {
    const child = spawnNode(args, cwd, env, 'pipe', command)
    const output = { stdout: '', stderr: '' }
    child.stdout?.on('data', (chunk) => {
      output.stdout += chunk
    })
    child.stderr?.on('data', (chunk) => {
      output.stderr += chunk
    })
    // What it logs once it serves comes after all that it prints.
    const serving = () => output.stderr.includes('"msg":"serving"')
    const hasEnded = () => child.exitCode !== null || child.signalCode !== null
    await until(() => serving() || hasEnded(), 'the node serves', START_MS_MAX)
    if (!serving())
      throw new Error(`The node ended with ${child.exitCode ?? child.signalCode}:\n${output.stderr}`)
    return new ServedNode(child, output)
  }

  get pid(): number {
    return this.child.pid as number
  }

  get stdout(): string {
    return this.#output.stdout
  }

  get stderr(): string {
    return this.#output.stderr
  }

  /** Asks for the end, and waits for it. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<[number | null, NodeJS.Signals | null]> {
    this.child.kill(signal)
    return await this.ended
  }

  /** A request with the key that the node printed. */
  async request(
    method: string,
    route: string,
    body?: unknown,
    key = this.key,
  ): Promise<{ status: number; body: Record<string, unknown> }> {
    const response = await fetch(`${this.address}${route}`, {
      method,
      headers: { 'x-api-key': key, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
}

function spawnNode(
  args: string[],
  cwd: string,
  env: Environment,
  stdout: number | 'pipe' = 'pipe',
  [program, ...before]: Command = [process.execPath],
): ChildProcess {
  const stdio = ['pipe', stdout, 'pipe'] as const
  const child = spawn(program, [...before, ...args], {
    cwd,
    env: { ...shellEnv(), ...env },
    stdio: [...stdio],
  })
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return child
}
