import { fork } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Nginx } from '../../test/support/nginx.ts'
import { newAccount, type Served, startCellstore } from '../http-process.ts'
import type { FromAttacker, Orders, ToAttacker } from './attacker.ts'
import { type Measured, Neighbour } from './neighbour.ts'
import { type Seen, Watch } from './watch.ts'

export interface Round {
  neighbour: Measured
  seen: Seen
  /** What the attacker was answered, the most frequent first. */
  answers: [answer: string, count: number][]
  kills: Kill[]
}

/** A worker that the node ended, or that crashed. */
export interface Kill {
  reason: string
  /** Whether it had the neighbour's cell open. */
  isOfNeighbour: boolean
  /** Whether it was running a statement of the neighbour. */
  blamesNeighbour: boolean
}

interface LogLine {
  reason?: string
  worker?: number
  cellId?: string
}

export interface Setting {
  flags?: readonly string[]
  /** Of the neighbour: a `known` one was there before the node's start, and needs no trial. */
  account?: 'new' | 'known'
  /** With nginx in front. The attacker then has an address of its own. */
  proxied?: boolean
}

/** A node of its own for an attack, so that nothing of one remains for the next. */
export class NodeUnderAttack {
  readonly neighbour: Neighbour
  readonly #directory: string
  readonly #served: Served & { ownerKey: string }
  readonly #nginx: Nginx | undefined

  private constructor(
    directory: string,
    served: Served & { ownerKey: string },
    nginx: Nginx | undefined,
    neighbour: Neighbour,
  ) {
    this.#directory = directory
    this.#served = served
    this.#nginx = nginx
    this.neighbour = neighbour
  }

  static async start({
    flags = [],
    account = 'new',
    proxied = false,
  }: Setting = {}): Promise<NodeUnderAttack> {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-neighbours-'))
    const objects = path.join(directory, 'objects')
    fs.mkdirSync(objects)
    const start = () =>
      startCellstore(
        directory,
        ['--object-store', `file://${objects}`, ...flags],
        path.join(directory, 'log'),
      )
    let served = await start()
    const key = newAccount(directory)
    if (account === 'known') {
      await served.stop()
      // A key is shown only once: the attacker's is another one.
      served = { ...(await start()), key: newAccount(directory) }
    }
    const nginx = proxied ? await Nginx.start(served.port) : undefined
    const neighbour = await Neighbour.create(nginx?.port ?? served.port, key)
    const ownerKey = newAccount(directory, '--owner')
    return new NodeUnderAttack(directory, { ...served, ownerKey }, nginx, neighbour)
  }

  /**
   * @param names of attacks, all at once
   * @param target the node that is attacked; the neighbour and what is watched are of this one
   */
  async attack(
    names: readonly string[],
    ms: number,
    seed = 1,
    target: NodeUnderAttack = this,
  ): Promise<Round> {
    const { pid } = this.#served
    const { key, ownerKey } = target.#served
    const port = target.#nginx?.port ?? target.#served.port
    const address = target.#nginx === undefined ? '127.0.0.1' : '127.0.0.2'
    const attacker = fork(path.join(import.meta.dirname, 'attacker.ts'), { execArgv: [] })
    const tell = (message: ToAttacker) => attacker.send(message)
    try {
      tell({ port, key, ownerKey, address, names, seed } satisfies Orders)
      await heard(attacker)
      // Only an account that was active lately is protected, and some attacks take long to prepare.
      await this.neighbour.warmUp()
      const linesBefore = this.#logged().length
      const watch = new Watch(pid, this.neighbour.cell)
      tell('begin')
      const answered = heard(attacker)
      const neighbour = await this.neighbour.measure(ms)
      const seen = watch.stop()
      tell('end')
      const told = (await answered) as Exclude<FromAttacker, string>
      const kills = this.#logged()
        .slice(linesBefore)
        .filter((line) => line.reason !== undefined && line.worker !== undefined)
        .map(({ reason = '', worker = 0, cellId }) => ({
          reason,
          isOfNeighbour: seen.ofNeighbour.has(worker),
          blamesNeighbour: cellId === this.neighbour.cell,
        }))
      return { neighbour, seen, answers: told.answers, kills }
    } finally {
      attacker.kill('SIGKILL')
    }
  }

  /** @returns how the node's process ended */
  async stop(): Promise<{ code: number | null; ms: number }> {
    const started = performance.now()
    this.neighbour.close()
    await this.#nginx?.stop()
    const code = await this.#served.stop()
    const ms = performance.now() - started
    fs.rmSync(this.#directory, { recursive: true, force: true })
    return { code, ms }
  }

  #logged(): LogLine[] {
    const text = fs.readFileSync(path.join(this.#directory, 'log'), 'utf8')
    return text
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line))
  }
}

async function heard(attacker: ReturnType<typeof fork>): Promise<FromAttacker> {
  const ended = once(attacker, 'exit').then(([code]) => {
    throw new Error(`The attacker's process ended with ${code}.`)
  })
  ended.catch(() => {})
  const [message] = (await Promise.race([once(attacker, 'message'), ended])) as [FromAttacker]
  return message
}
