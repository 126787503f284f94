import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { until } from '../until.ts'

/** Why nothing can be traced here; undefined where it can. Tests are skipped with the reason. */
export const noStrace: string | undefined = (() => {
  const probe = ['-f', '-e', 'trace=fsync', '-e', 'inject=fsync:error=EIO:when=1', 'true']
  try {
    execFileSync('strace', probe, { stdio: ['ignore', 'ignore', 'pipe'] })
    return undefined
  } catch (error) {
    const { code, stderr } = error as { code?: string; stderr?: Buffer }
    if (code === 'ENOENT') return 'strace is not installed'
    return `strace may not trace here: ${String(stderr).trim().split('\n').at(-1)}`
  }
})()

/** A fault that strace causes, as `-e inject=` has it: which call, what happens to it, and when. */
export interface Injection {
  call: string
  /** An errno such as `EIO`, or `SIGKILL` for the end of the process at that call. */
  fault: string
  /** The n-th call of a thread, from 1. */
  when: number
  /** Every one from then on. */
  forEver?: boolean | undefined
}

export interface TraceOptions {
  /** Where the trace goes. */
  output: string
  /** Names of the system calls to record. */
  calls: readonly string[]
  /** Only calls that name one of these paths, or a descriptor of one. */
  paths?: readonly string[] | undefined
  injection?: Injection | undefined
}

const ATTACH_MS_MAX = 60_000

/** Bytes of a write that are recorded: more than any program of ours writes at once. */
const BYTES_MAX = 4 * 1_048_576

/** What strace is called with; the program, or `-p` and a pid, follow. */
function straceArguments({ output, calls, paths = [], injection }: TraceOptions): string[] {
  const args = [
    '-f',
    '-qq',
    '-y',
    '-xx',
    '-s',
    String(BYTES_MAX),
    '-o',
    output,
    '-e',
    `trace=${calls.join(',')}`,
  ]
  for (const name of paths) args.push('-P', name)
  if (injection !== undefined) {
    const { call, fault, when, forEver } = injection
    const kind = fault.startsWith('SIG') ? 'signal' : 'error'
    args.push('-e', `inject=${call}:${kind}=${fault}:when=${when}${forEver ? '+' : ''}`)
  }
  return args
}

/**
 * Programs of `../programs`, which are told `go` once strace is attached to them: so calls are counted from that moment
 * on, not from the start of Node. They use one thread of the pool, so that a call has the same number in every run.
 */
export class ProgramUnderStrace {
  readonly child: ChildProcess
  stdout = ''

  private constructor(child: ChildProcess) {
    this.child = child
    child.stdout?.on('data', (chunk) => {
      this.stdout += chunk
    })
  }

  /** Starts the program, waits until it says `ready`, attaches strace, and lets it go. Resolves once both have ended. */
  static async run(
    program: string,
    args: readonly string[],
    trace: TraceOptions,
  ): Promise<ProgramUnderStrace> {
    const child = spawn(process.execPath, commandLine(program, args), {
      env: ENVIRONMENT,
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const ended = once(child, 'exit')
    const run = new ProgramUnderStrace(child)
    try {
      await until(
        () => run.stdout.includes('ready\n') || child.exitCode !== null,
        'the program is ready',
        ATTACH_MS_MAX,
      )
      const strace = spawn('strace', [...straceArguments(trace), '-p', String(child.pid)], {
        stdio: 'ignore',
      })
      const traced = once(strace, 'exit')
      await until(
        () => isTraced(child.pid as number) || strace.exitCode !== null,
        'strace is attached',
        ATTACH_MS_MAX,
      )
      child.stdin?.end('go\n')
      await Promise.all([ended, traced])
      return run
    } finally {
      child.kill('SIGKILL')
    }
  }

  /**
   * As {@link run}, with its start in the trace too, where nobody counts calls: only a program that strace has started runs at
   * full speed between the calls that are recorded.
   */
  static async record(
    program: string,
    args: readonly string[],
    trace: TraceOptions,
  ): Promise<ProgramUnderStrace> {
    const traced = [
      '--seccomp-bpf',
      ...straceArguments(trace),
      process.execPath,
      ...commandLine(program, args),
    ]
    const child = spawn('strace', traced, {
      env: ENVIRONMENT,
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true,
    })
    const ended = once(child, 'exit')
    const run = new ProgramUnderStrace(child)
    try {
      child.stdin?.end('go\n')
      await ended
      return run
    } finally {
      // Its group, because the program outlives its tracer.
      if (child.exitCode === null && child.signalCode === null)
        process.kill(-(child.pid as number), 'SIGKILL')
    }
  }

  /** What the program said after it was ready, a line each. A line that the end cut off does not count. */
  get lines(): string[] {
    return this.stdout.split('\n').slice(1, -1)
  }
}

/** One thread of the pool, so that calls come in the same order in every run. */
const ENVIRONMENT = { ...process.env, UV_THREADPOOL_SIZE: '1' }

function commandLine(program: string, args: readonly string[]): string[] {
  return ['--no-warnings', path.join(import.meta.dirname, 'programs', program), ...args]
}

/** Every thread has to have a tracer before anything is counted. */
function isTraced(pid: number): boolean {
  try {
    return fs
      .readdirSync(`/proc/${pid}/task`)
      .every((task) =>
        /^TracerPid:\t[1-9]/m.test(fs.readFileSync(`/proc/${pid}/task/${task}/status`, 'utf8')),
      )
  } catch {
    return false
  }
}
