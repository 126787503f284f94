import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { countOf } from '../support/counts.ts'
import { prepareLedger, readLedger } from '../support/faults/ledger.ts'
import { type Injection, noStrace, ProgramUnderStrace } from '../support/faults/strace.ts'
import { sampleFaults } from '../support/faults/sweep.ts'
import { type Call, pathOf, readTrace } from '../support/faults/trace.ts'
import { untilServed } from '../support/faults/until-served.ts'
import { seededRandom } from '../support/seed.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const FAULTS = countOf('CELLSTORE_WRITE_FAULTS')
const ENTRIES = 24

vi.setConfig({ testTimeout: 7_200_000 })

const CHANGING = new Set(['pwrite64', 'fsync', 'ftruncate', 'openat'])
const CALLS = [...CHANGING, 'pread64']

/** What has found a bug once is tried every time. */
const FOUND: Injection[] = [
  // SQLite then opens the database for reading only, and every write has failed as if its SQL were wrong.
  { call: 'openat', fault: 'ENOSPC', when: 1 },
]

test.runIf(noStrace !== undefined)(`faults under writes were not tested: ${noStrace}`, () => {})

test.skipIf(noStrace !== undefined)(
  `when any system call fails under writes, once or for ever, no acknowledged write is lost, and no write whose fsync failed is acknowledged (invariant 1; ${FAULTS} faults)`,
  async () => {
    const random = seededRandom()
    const root = tempDirectory('cellstore-writes')
    const place = await createPlace(path.join(root, 'place'))
    const counts = new Map<string, number>()
    const undisturbed = await runWith(place, root, undefined)
    for (const { name } of undisturbed.calls) counts.set(name, (counts.get(name) ?? 0) + 1)
    expect(undisturbed.failed).toEqual([])
    const all = faultsIn(counts)
    const chosen = [...FOUND, ...sampleFaults(all, FAULTS, random)]
    const codes: Record<string, number> = {}
    const failures: string[] = []
    for (const injection of chosen) {
      try {
        for (const code of (await runWith(place, root, injection)).failed)
          codes[code] = (codes[code] ?? 0) + 1
      } catch (error) {
        const { call, when, fault, forEver } = injection
        failures.push(`${call} ${when}${forEver ? '+' : ''} ${fault}: ${(error as Error).message}`)
      }
    }
    console.info(`${chosen.length} of ${all.length} faults; failed writes: ${JSON.stringify(codes)}`)
    expect(failures).toEqual([])
  },
)

interface Place {
  directory: string
  cell: string
}

async function createPlace(directory: string): Promise<Place> {
  const data = new StoreDirectory(directory)
  const cell = await data.use(data.create(), (store) => {
    const made = store.createCell()
    prepareLedger(made)
    return made.id
  })
  return { directory, cell }
}

async function runWith({ directory, cell }: Place, root: string, injection: Injection | undefined) {
  const copy = path.join(root, 'copy')
  const [output, told] = [path.join(root, 'trace'), path.join(root, 'story')]
  fs.cpSync(directory, copy, { recursive: true })
  try {
    const paths = new StorePaths(copy)
    const files = [paths.cell(cell).database, paths.catalog].flatMap((file) => [file, `${file}-wal`])
    const args = [copy, cell, told, String(ENTRIES)]
    const trace = { output, calls: [...CALLS, 'write'], paths: [...files, told], injection }
    const { child } = await ProgramUnderStrace.run('write-program.ts', args, trace)
    if (child.exitCode !== 0) throw new Error(`The program ended with ${child.exitCode ?? child.signalCode}`)
    const calls: Call[] = []
    for await (const call of readTrace(output)) calls.push(call)
    const story = readStory(told)
    checkCodes(story, injection)
    checkCommits(calls, story, files)
    await checkWhatIsThere(copy, cell, story)
    return { calls: calls.filter(({ name }) => name !== 'write'), failed: [...story.failed.values()] }
  } finally {
    fs.rmSync(copy, { recursive: true, force: true })
  }
}

interface Story {
  begun: Set<number>
  done: Set<number>
  /** With the code that was told. */
  failed: Map<number, string>
  /** What a read right after each failure has come to. */
  reads: string[]
}

function readStory(file: string): Story {
  const story: Story = { begun: new Set(), done: new Set(), failed: new Map(), reads: [] }
  for (const line of fs.readFileSync(file, 'utf8').trim().split('\n')) {
    const [what, subject = '', code = ''] = line.split(' ')
    if (what === 'begin') story.begun.add(Number(subject))
    else if (what === 'done') story.done.add(Number(subject))
    else if (what === 'failed') story.failed.set(Number(subject), code)
    else story.reads.push(subject)
  }
  return story
}

/** An error is one of those that say what to do, and a disk that takes no more still gives. */
function checkCodes({ failed, reads, done }: Story, injection: Injection | undefined): void {
  const odd = [...failed.values()].filter((code) => !CODES.has(code))
  if (odd.length > 0) throw new Error(`Writes have failed with ${odd}`)
  if (injection?.fault !== 'ENOSPC' || injection.call !== 'pwrite64') return
  const refused = reads.filter((code) => code !== 'ok')
  if (refused.length > 0) throw new Error(`Reads have failed with ${refused}`)
  if (!injection.forEver && done.size === 0) throw new Error('Nothing was written afterwards')
}

const CODES = new Set(['cell_quarantined', 'disk_full', 'cell_full', 'busy'])

/** Whatever was under way when the fsync of a commit failed must not be acknowledged; nobody may try that fsync again. */
function checkCommits(calls: readonly Call[], { done }: Story, files: readonly string[]): void {
  const underWay = new Set<number>()
  const lastOf = new Map<string, string>()
  for (const call of calls) {
    if (call.name === 'write') {
      for (const line of call.args[1]?.bytes?.toString().trim().split('\n') ?? []) {
        const [what, n] = line.split(' ')
        if (what === 'begin') underWay.add(Number(n))
        else underWay.delete(Number(n))
      }
      continue
    }
    const file = pathOf(call)
    const isCommit = call.name === 'fsync' && file.endsWith('-wal') && lastOf.get(file) === 'pwrite64'
    lastOf.set(file, call.name)
    if (!isCommit || call.result === 0) continue
    const isCatalog = files.indexOf(file) === files.length - 1
    const wrong = [...underWay].filter((n) => n < 0 === isCatalog && done.has(n))
    if (wrong.length > 0) throw new Error(`Acknowledged after their fsync failed: ${wrong}`)
  }
}

async function checkWhatIsThere(directory: string, cell: string, { begun, done }: Story): Promise<void> {
  const data = new StoreDirectory(directory)
  const [entries, accounts] = await data.use(data.open(), async (store) => [
    readLedger(await untilServed(store.openCell(cell))) ?? [],
    store.accounts.list().length,
  ])
  const there = new Set(entries)
  const lost = [...done].filter((n) => n > 0 && !there.has(n))
  if (lost.length > 0) throw new Error(`Acknowledged, and lost: ${lost}`)
  const unknown = entries.filter((n) => !begun.has(n))
  if (unknown.length > 0) throw new Error(`Never written: ${unknown}`)
  const acknowledged = [...done].filter((n) => n < 0).length
  if (accounts < acknowledged) throw new Error(`${accounts} accounts of ${acknowledged}`)
}

function faultsIn(counts: Map<string, number>): Injection[] {
  return [...counts].flatMap(([call, count]) =>
    Array.from({ length: count }, (_, i) =>
      (CHANGING.has(call) ? ['EIO', 'ENOSPC'] : ['EIO']).flatMap((fault) =>
        [false, true].map((forEver) => ({ call, fault, when: i + 1, forEver })),
      ),
    ).flat(),
  )
}
