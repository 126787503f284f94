import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from './free-port.ts'

const READY_MS_MAX = 60_000
const OWNER = 'cellstore'

/** Where Debian, or the PATH, has PostgreSQL's programs; undefined if it is not installed. */
const PROGRAMS = [
  ...(fs.existsSync('/usr/lib/postgresql')
    ? fs.readdirSync('/usr/lib/postgresql').map((version) => `/usr/lib/postgresql/${version}/bin`)
    : []),
  ...(process.env['PATH'] ?? '').split(':'),
].find((directory) =>
  ['postgres', 'initdb', 'pg_basebackup'].every((each) => fs.existsSync(path.join(directory, each))),
)

/** Tests that need a real PostgreSQL are skipped without; `.ci/run` installs it. */
export const hasPostgres = PROGRAMS !== undefined

/** PostgreSQL refuses to run as root. */
function userOfServer(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const line = fs
    .readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((each) => each.startsWith('postgres:'))
  if (line === undefined) throw new Error('There is no user postgres, and PostgreSQL does not run as root.')
  const [, , uid, gid] = line.split(':')
  return { uid: Number(uid), gid: Number(gid) }
}

/** A real PostgreSQL with a directory of its own, on a free port of 127.0.0.1. */
export class TestPostgres {
  readonly port: number
  readonly #root: string
  readonly #user = userOfServer()
  #server: ChildProcess | undefined
  #log = ''

  readonly #syncs: boolean

  private constructor(port: number, root: string, syncs: boolean) {
    this.port = port
    this.#root = root
    this.#syncs = syncs
  }

  /** @param options.syncs whether commits survive a loss of power: no test takes it from this server */
  static async start({ syncs = false } = {}): Promise<TestPostgres> {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-postgres-'))
    const postgres = new TestPostgres(await freePort(), root, syncs)
    const { uid, gid } = postgres.#user
    if (uid !== undefined && gid !== undefined) fs.chownSync(root, uid, gid)
    postgres.#run(
      'initdb',
      '-D',
      postgres.#data,
      '-U',
      OWNER,
      '-A',
      'trust',
      '-E',
      'UTF8',
      '--locale=C',
      '-N',
    )
    await postgres.restart()
    return postgres
  }

  /** @param database it must exist @param user a role */
  url(database = 'postgres', user = OWNER, port = this.port): string {
    return `postgres://${user}@127.0.0.1:${port}/${database}`
  }

  /** The URL of a new, empty database. */
  async newDatabase(name: string): Promise<string> {
    await this.query(`CREATE DATABASE ${pg.escapeIdentifier(name)}`)
    return this.url(name)
  }

  /** Runs SQL as the server's owner. */
  async query<Row extends pg.QueryResultRow>(
    sql: string,
    values: unknown[] = [],
    database?: string,
  ): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.url(database) })
    await client.connect()
    try {
      return (await client.query<Row>(sql, values)).rows
    } finally {
      await client.end()
    }
  }

  /** Starts the server with the directory as it is. */
  async restart(): Promise<void> {
    const settings = [
      `fsync=${this.#syncs ? 'on' : 'off'}`,
      'listen_addresses=127.0.0.1',
      'unix_socket_directories=',
      'max_connections=200',
    ]
    const server = spawn(
      path.join(PROGRAMS ?? '', 'postgres'),
      ['-D', this.#data, '-p', String(this.port), ...settings.flatMap((each) => ['-c', each])],
      { ...this.#user, cwd: this.#root, stdio: ['ignore', 'ignore', 'pipe'] },
    )
    server.stderr?.on('data', (text) => (this.#log += text))
    this.#server = server
    for (const until = Date.now() + READY_MS_MAX; !(await this.#answers()); await setTimeout(20))
      if (server.exitCode !== null || Date.now() > until)
        throw new Error(`PostgreSQL does not start: ${this.#log}`)
  }

  /** Ends the server as a crash does: connections break, and nothing is written any more. */
  kill(): Promise<void> {
    return this.#end('SIGQUIT')
  }

  /** A consistent copy of the server's directory as it is now, for {@link putBack}. */
  copy(): string {
    const copy = path.join(this.#root, `copy-${fs.readdirSync(this.#root).length}`)
    const from = ['-h', '127.0.0.1', '-p', String(this.port), '-U', OWNER]
    this.#run('pg_basebackup', '-D', copy, '-X', 'fetch', '-c', 'fast', '-N', ...from)
    return copy
  }

  /** Kills the server, and starts it with an earlier copy of its directory: it forgets what it has committed since. */
  async putBack(copy: string): Promise<void> {
    await this.kill()
    fs.rmSync(this.#data, { recursive: true })
    fs.renameSync(copy, this.#data)
    await this.restart()
  }

  /** Ends the server and removes its directory. */
  async stop(): Promise<void> {
    await this.#end('SIGINT')
    fs.rmSync(this.#root, { recursive: true, force: true })
  }

  get #data(): string {
    return path.join(this.#root, 'data')
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const server = this.#server
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return
    const ended = once(server, 'exit')
    server.kill(signal)
    await ended
  }

  #run(program: string, ...args: string[]): void {
    execFileSync(path.join(PROGRAMS ?? '', program), args, { ...this.#user, cwd: this.#root, stdio: 'pipe' })
  }

  async #answers(): Promise<boolean> {
    try {
      await this.query('SELECT 1')
      return true
    } catch {
      return false
    }
  }
}
