import net from 'node:net'
import { onTestFinished } from 'vitest'
import { type ServedNode, Workplace } from '../cli/workplace.ts'
import { Nginx } from '../nginx.ts'
import { answersIn, exchange } from './wire.ts'

/** A node as users run it, in processes of its own, and someone who goes on asking it for ordinary things meanwhile. */
export class Victim {
  readonly node: ServedNode
  /** Of the node, or of the proxy in front of it. */
  readonly port: number
  /** The one that is attacked. */
  cell: string
  /** The one that ordinary requests are for. */
  readonly #neighbour: string
  #probing = true
  #probes: Promise<unknown> | undefined
  /** How long each ordinary request took, from the first byte of its own connection to the last, in milliseconds. */
  readonly times: number[] = []

  private constructor(node: ServedNode, port: number, cell: string, neighbour: string) {
    this.node = node
    this.port = port
    this.cell = cell
    this.#neighbour = neighbour
  }

  static async start(...flags: string[]): Promise<Victim> {
    return await Victim.#of(await new Workplace().serve('--workers', '1', ...flags))
  }

  /** With nginx in front. @param changes of its configuration */
  static async behindNginx(changes: readonly [string, string][] = [], ...flags: string[]): Promise<Victim> {
    const node = await new Workplace().serve('--workers', '1', ...flags)
    const nginx = await Nginx.start(portOf(node), changes)
    onTestFinished(() => nginx.stop())
    return await Victim.#of(node, nginx.port)
  }

  static async #of(node: ServedNode, port = portOf(node)): Promise<Victim> {
    const victim = new Victim(node, port, await newCell(node), await newCell(node))
    victim.#probes = victim.#probe().catch((error: unknown) => error)
    onTestFinished(() => {
      victim.#probing = false
    })
    return victim
  }

  /** Request line and headers of a request with a key. */
  head(method: string, path: string, ...headers: string[]): string {
    const lines = [`${method} ${path} HTTP/1.1`, 'Host: x', `x-api-key: ${this.node.key}`, ...headers]
    return `${lines.join('\r\n')}\r\n\r\n`
  }

  kv(key: string): string {
    return `/v1/databases/${this.cell}/kv/${key}`
  }

  /** An attack may be a well-formed request to delete the cell. @returns whether there is another one now */
  async replaceCell(): Promise<boolean> {
    // On a connection of its own: one that is kept for later may just be at its end.
    const head = this.head('GET', `/v1/databases/${this.cell}`, 'Connection: close')
    if (answersIn(await exchange(this.port, head).ended)[0]?.status === 200) return false
    const made = await exchange(this.port, this.head('POST', '/v1/databases', 'Connection: close')).ended
    this.cell = JSON.parse(answersIn(made)[0]?.body ?? '').id
    return true
  }

  /** Every ordinary request was answered, the node lives, and has logged no bug. @returns what to print */
  async check(): Promise<string> {
    this.#probing = false
    const failure = await this.#probes
    const { exitCode, signalCode } = this.node.child
    if (exitCode !== null || signalCode !== null) {
      throw new Error(`The node ended: ${exitCode ?? signalCode}: ${this.node.stderr.slice(-4_000)}`)
    }
    if (failure !== undefined) throw failure
    const bugs = this.node.stderr.split('\n').filter((line) => /"level":(50|60)/.test(line))
    if (bugs.length > 0) throw new Error(`The node logged ${bugs.length} errors: ${bugs[0]}`)
    const slowest = Math.max(...this.times)
    return `${this.times.length} ordinary requests meanwhile, the slowest in ${slowest.toFixed(0)} ms`
  }

  async #probe(): Promise<void> {
    while (this.#probing) {
      const started = performance.now()
      const body = '{"value":"v"}'
      const headers = [
        'Content-Type: application/json',
        `Content-Length: ${body.length}`,
        'Connection: close',
      ]
      const head = this.head('PUT', `/v1/databases/${this.#neighbour}/kv/probe`, ...headers)
      const received = await exchange(this.port, head + body).ended
      if (answersIn(received)[0]?.status !== 200) throw new Error(`An ordinary request got ${received}`)
      this.times.push(performance.now() - started)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

function portOf(node: ServedNode): number {
  return Number(new URL(node.address).port)
}

async function newCell(node: ServedNode): Promise<string> {
  return String((await node.request('POST', '/v1/databases')).body['id'])
}

/** Opens a connection and leaves it alone. @returns undefined if there was none to be had */
export function openIdle(port: number, localAddress = '127.0.0.1'): Promise<net.Socket | undefined> {
  return new Promise((resolve) => {
    const socket = net.connect({ port, host: '127.0.0.1', localAddress }, () => resolve(socket))
    socket.on('error', () => resolve(undefined))
    onTestFinished(() => void socket.destroy())
  })
}
