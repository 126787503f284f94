import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Assignment } from '../../../src/catalog/assignment/assignment.ts'
import { ENTRY } from '../cli/workplace.ts'
import { PROJECT } from '../package/run.ts'
import { proceed } from '../s3/scripted-s3.ts'
import { tempDirectory } from '../temp-directory.ts'
import { checkRevocation, type KeyUse } from './history.ts'
import type { ClusterStorm } from './storm.ts'
import type { TestNode } from './test-cluster.ts'

/** A node without one of the rules, and what brings that to light. */
export interface Mutant {
  rule: string
  /** What stands in `dist/` in one place, and what is put there. */
  instead: readonly (readonly [string, string])[]
  scenario(storm: ClusterStorm): Promise<void>
}

/** Longer than a take-over takes. */
const TAKEN_MS = 30_000
/** Enough for appends that are acknowledged. */
const LOGGED_MS = 5_000
const FENCE = /\/fence\/\d+$/
const ASSIGNMENT = /assign\/\d+$/

const LEASE_AFTER_THE_WORK = ['if (this.#parts.lease.isValid()) return;', 'return;'] as const

export const MUTANTS: readonly Mutant[] = [
  {
    rule: 'C1: no assignment is overwritten',
    instead: [
      [
        'conditional ? { IfNoneMatch: "*" } : {}',
        'conditional && !key.startsWith("assign/") ? { IfNoneMatch: "*" } : {}',
      ],
    ],
    scenario: lateAssignment,
  },
  {
    rule: 'C5: an assignment says where the log of the node before ended',
    instead: [['await reassign({ node: node.id, lastLog,', 'await reassign({ node: node.id, lastLog: null,']],
    scenario: async ({ node }) => {
      // What is acknowledged now is in the node's log, and in no version.
      await sleep(LOGGED_MS)
      await node().end('SIGKILL')
      await sleep(TAKEN_MS)
    },
  },
  {
    rule: 'C4: the lease is checked after the work, before the answer',
    instead: [LEASE_AFTER_THE_WORK],
    scenario: (storm) => cutOff(storm, 'postgres', 'bucket'),
  },
  {
    rule: 'C2, C3: a node looks at its fence, and answers nothing once there is a newer one',
    instead: [['if (await this.#store.head(newer, options) !== void 0) {', 'if (false) {']],
    scenario: (storm) => cutOff(storm, 'postgres', 'inbound'),
  },
  {
    rule: 'a taker waits until the lease by the bucket has ended',
    instead: [['if (!hasEnded) await delay(clock, times.fenceMs);', '']],
    scenario: cutOffAtItsFence,
  },
  {
    rule: 'C6: no node goes back to an older catalog, not even if PostgreSQL does',
    // No node notices that it is another PostgreSQL.
    instead: [
      [`floor, incarnation, \${incarnation} AS own FROM`, 'floor, incarnation, incarnation AS own FROM'],
    ],
    scenario: forgottenRevocation,
  },
  {
    rule: 'C8: the nodes give PostgreSQL back what it has lost',
    instead: [
      [
        'async function giveBack(transaction, { version, floor }, replica) {',
        'async function giveBack() { return;',
      ],
    ],
    scenario: async (storm) => {
      const { postgres } = storm.cluster
      const copy = postgres.copy()
      await storm.begin(2)
      await sleep(LOGGED_MS)
      await postgres.putBack(copy)
      await sleep(TAKEN_MS)
    },
  },
  {
    rule: 'C7: a revocation is answered after each living node has confirmed it',
    instead: [['if (!isRevocation(rows)) return;', 'return;']],
    scenario: async (storm) => {
      for (let i = 0; i < 5; i++) await storm.revoke()
    },
  },
]

/** @returns the command of a copy of `dist/` */
export function entryOf({ rule, instead }: Mutant): string {
  const folder = tempDirectory('cellstore-mutant')
  const dist = path.join(folder, 'dist')
  fs.cpSync(path.dirname(ENTRY), dist, { recursive: true })
  fs.symlinkSync(path.join(PROJECT, 'node_modules'), path.join(folder, 'node_modules'))
  for (const [text, other] of instead) {
    const files = fs
      .readdirSync(dist)
      .filter((file) => file.endsWith('.js'))
      .map((file) => path.join(dist, file))
      .filter((file) => fs.readFileSync(file, 'utf8').includes(text))
    const [file] = files
    const parts = file === undefined ? [] : fs.readFileSync(file, 'utf8').split(text)
    if (file === undefined || files.length > 1 || parts.length !== 2)
      throw new Error(`${rule}: dist/ has ${JSON.stringify(text)} in ${files.length} files`)
    fs.writeFileSync(file, parts.join(other))
  }
  return path.join(dist, path.basename(ENTRY))
}

/** A node keeps one link, and its clients. */
async function cutOff({ node }: ClusterStorm, ...sides: (keyof TestNode['links'])[]): Promise<void> {
  const { links } = node()
  for (const side of sides) links[side]?.set('cut')
  await sleep(TAKEN_MS)
}

/** The last look of a node at its fence is as late as can be: from the moment on at which its taker puts one it can't look. */
async function cutOffAtItsFence({ node, cluster: { scripted } }: ClusterStorm): Promise<void> {
  const { links } = node()
  if (scripted === undefined) throw new Error('This needs the S3 of this process.')
  scripted.interfere(
    ({ method, key }) => method === 'PUT' && FENCE.test(key),
    (request, exchange) => {
      links.bucket?.set('stalled')
      proceed(request, exchange)
    },
  )
  links.postgres.set('cut')
  links.inbound.set('cut')
  await sleep(TAKEN_MS)
}

/** A node's last assignment is as late as can be: others have taken all that it had, and then one of them starts again. */
async function lateAssignment(storm: ClusterStorm): Promise<void> {
  const { nodes, scripted } = storm.cluster
  if (scripted === undefined) throw new Error('This needs the S3 of this process.')
  const drained = storm.node()
  const put = Promise.withResolvers<{ body: Buffer; arrives(): void }>()
  scripted.interfere(
    ({ method, key }) => method === 'PUT' && ASSIGNMENT.test(key),
    (request, exchange) => put.resolve({ body: request.body, arrives: () => proceed(request, exchange) }),
    1,
  )
  const draining = storm.command('drain', drained, drained)
  const { body, arrives } = await put.promise
  const { n, ranges } = JSON.parse(body.toString()) as Assignment
  const target = ranges.find(({ since }) => since === n)?.node
  const status = await storm.cluster.nodes.find((node) => node !== drained)?.status()
  const { address } = status?.nodes.find(({ id }) => id === target) ?? {}
  const gets = nodes.find(({ advertised }) => advertised === address)
  // So that a third node gets all.
  gets?.links.inbound.set('cut')
  drained.links.postgres.set('cut')
  drained.links.inbound.set('cut')
  await sleep(TAKEN_MS)
  arrives()
  await draining
  await gets?.end('SIGKILL')
  gets?.links.inbound.set('up')
  await gets?.start(false)
  await sleep(TAKEN_MS)
}

/** PostgreSQL is put back to before a revocation. */
async function forgottenRevocation(storm: ClusterStorm): Promise<void> {
  const { nodes, key, postgres } = storm.cluster
  const [first] = nodes as [TestNode]
  const made = await first.request('POST', '/v1/api-keys', { key, body: { name: 'forgotten' } })
  const copy = postgres.copy()
  const { status } = await first.request('DELETE', `/v1/api-keys/${made.body['id']}`, { key })
  if (status >= 300) throw new Error(`The key was not revoked: ${status}`)
  const revokedAt = performance.now()
  await postgres.putBack(copy)
  const uses: KeyUse[] = []
  for (const end = performance.now() + TAKEN_MS; performance.now() < end; await sleep(200))
    for (const node of nodes) uses.push(await storm.use(node, String(made.body['key'])))
  storm.violations.push(...checkRevocation(revokedAt, uses))
}
