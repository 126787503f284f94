import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { freePort } from './free-port.ts'

const CONFIGURATION = path.join(import.meta.dirname, '../../deploy/nginx.conf')
const PROGRAM = ['/usr/sbin/nginx', '/usr/local/sbin/nginx', '/usr/bin/nginx'].find((file) =>
  fs.existsSync(file),
)
const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
const READY_MS_MAX = 20_000

export const hasNginx = PROGRAM !== undefined

/** What of `deploy/nginx.conf` is different where nothing is installed: files, ports, and no TLS. */
function configured(
  directory: string,
  port: number,
  node: number,
  changes: readonly [string, string][],
): string {
  const paths = TEMPORARY.map((kind) => `${kind}_temp_path ${directory}/${kind};`).join(' ')
  const replaced: readonly [string, string][] = [
    ['user www-data;', process.getuid?.() === 0 ? 'user root;' : ''],
    ['/run/nginx.pid', `${directory}/pid`],
    ['/var/log/nginx/error.log', `${directory}/error.log`],
    ['http {', `http { ${paths}`],
    ['listen 443 ssl;', `listen 127.0.0.1:${port};`],
    ['127.0.0.1:8787', `127.0.0.1:${node}`],
    ...changes,
  ]
  let text = fs.readFileSync(CONFIGURATION, 'utf8').replace(/^\s*ssl_certificate.*$/gm, '')
  for (const [from, to] of replaced) {
    if (!text.includes(from)) throw new Error(`${CONFIGURATION} has no ${from}`)
    text = text.replace(from, to)
  }
  return text
}

/** Debian's nginx in front of a node, as `deploy/nginx.conf` has it, on a free port of 127.0.0.1. */
export class Nginx {
  readonly port: number
  readonly #child: ChildProcess
  readonly #directory: string

  private constructor(port: number, child: ChildProcess, directory: string) {
    this.port = port
    this.#child = child
    this.#directory = directory
  }

  /** @param node the node's port @param changes of the configuration, such as shorter times */
  static async start(node: number, changes: readonly [string, string][] = []): Promise<Nginx> {
    if (PROGRAM === undefined)
      throw new Error('There is no nginx on this machine: apt-get install nginx-light')
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-nginx-'))
    const file = path.join(directory, 'nginx.conf')
    const port = await freePort()
    fs.writeFileSync(file, configured(directory, port, node, changes))
    const child = spawn(PROGRAM, ['-p', directory, '-e', 'stderr', '-c', file, '-g', 'daemon off;'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let told = ''
    child.stderr?.on('data', (text) => (told += text))
    for (const until = Date.now() + READY_MS_MAX; !(await takesConnections(port)); await setTimeout(20))
      if (child.exitCode !== null || Date.now() > until) {
        child.kill('SIGKILL')
        throw new Error(`nginx does not start: ${told}`)
      }
    return new Nginx(port, child, directory)
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGTERM')
      await once(this.#child, 'exit')
    }
    fs.rmSync(this.#directory, { recursive: true, force: true })
  }
}

function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1')
    const end = (isOpen: boolean) => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.once('connect', () => end(true)).once('error', () => end(false))
  })
}
