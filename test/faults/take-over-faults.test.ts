import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { isCellError } from '../../src/errors.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import { countOf } from '../support/counts.ts'
import { type Injection, noStrace, ProgramUnderStrace } from '../support/faults/strace.ts'
import { callsByName, faultsOf, sampleFaults } from '../support/faults/sweep.ts'
import { untilServed } from '../support/faults/until-served.ts'
import { seededRandom } from '../support/seed.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const FAULTS = countOf('CELLSTORE_START_FAULTS')
/** Whatever they are about: an adoption makes files whose names nobody knows before. */
const CALLS = [
  ...['rename', 'link', 'unlink', 'mkdir', 'rmdir', 'fsync', 'fdatasync'],
  ...['pwrite64', 'pread64', 'ftruncate', 'openat', 'statx'],
]

vi.setConfig({ testTimeout: 7_200_000 })

test.runIf(noStrace !== undefined)(`faults in a take-over were not tested: ${noStrace}`, () => {})

type Flag = 'adopt' | 'takeOver'
type Flags = { [flag in Flag]?: true }

/** What the cell and the catalog show of the directory, and of the object store. */
const OWN = 'both own account'
const THEIRS = 'both theirs'

test.skipIf(noStrace !== undefined).each([
  ['adopt', 'takeOver'],
  ['takeOver', 'adopt'],
] as const)(
  `a start with %s that fails or is killed at any of its system calls leaves one history or the other, whole, whichever flag comes next (invariants 1, 14; ${FAULTS} faults)`,
  async (flag, otherFlag) => {
    const random = seededRandom()
    const place = await KilledPlace.create()
    const output = path.join(place.root, 'trace')
    expect(await place.startWith(flag, undefined, output)).toBe('started')
    const all = faultsOf(await callsByName(output))
    const outcomes: Record<string, number> = {}
    const failures: string[] = []
    for (const injection of sampleFaults(all, FAULTS, random)) {
      const said = await place.startWith(flag, injection)
      const next = random.pick([{}, { [flag]: true }, { [otherFlag]: true }])
      const seen = await place.look(next)
      // Without a flag the start may be refused; with one, it goes on.
      const last = seen === 'store_outdated' ? await place.look({ [flag]: true }) : seen
      const story = `${said}, then ${JSON.stringify(next)}: ${seen}, ${last}`
      outcomes[story] = (outcomes[story] ?? 0) + 1
      const { call, when, fault } = injection
      if (last !== OWN && last !== THEIRS) failures.push(`${call} ${when} ${fault}: ${story}`)
    }
    console.info(`of ${all.length} faults: ${JSON.stringify(outcomes, undefined, 1)}`)
    expect(failures).toEqual([])
  },
)

/** A directory that was killed with changes of its own, while another one has gone on from the object store. */
class KilledPlace {
  readonly root = tempDirectory('cellstore-take-over')
  readonly #crash = path.join(this.root, 'crash')
  readonly #copy = path.join(this.root, 'copy')
  #cell = ''
  #account = ''

  static async create(): Promise<KilledPlace> {
    const place = new KilledPlace()
    const { root } = place
    const objectStore = () => objectsIn(root)
    const store = await CellStore.create(path.join(root, 'data'), { objectStore: objectStore() })
    const cell = store.createCell()
    cell.kv.put('both', 'v')
    await store.backups.snapshot(cell.id)
    const other = path.join(root, 'other')
    const theirs = await CellStore.open(other, { objectStore: objectStore(), takeOver: true })
    await theirs.openCell(cell.id).ensureLocal()
    theirs.openCell(cell.id).kv.put('theirs', 'v')
    await theirs.backups.snapshot(cell.id)
    await theirs.close()
    cell.kv.put('own', 'v')
    place.#cell = cell.id
    place.#account = store.accounts.create().id
    const filter = (file: string) => !/(lock|workers)\.db|owner\.json/.test(file)
    fs.cpSync(path.join(root, 'data'), path.join(place.#crash, 'data'), { recursive: true, filter })
    fs.cpSync(path.join(root, 'objects'), path.join(place.#crash, 'objects'), { recursive: true })
    await store.close()
    return place
  }

  /** Starts a copy of what the kill has left. @returns how that ended */
  async startWith(flag: Flag, injection: Injection | undefined, output = '/dev/null'): Promise<string> {
    const copy = this.#copy
    fs.rmSync(copy, { recursive: true, force: true })
    fs.cpSync(this.#crash, copy, { recursive: true })
    const remembered = path.join(copy, 'data', 'object-store.json')
    const { url: before } = objectsIn(this.root)
    const content = fs.readFileSync(remembered, 'utf8').replaceAll(before, objectsIn(copy).url)
    fs.writeFileSync(remembered, content)
    const trace = { output, calls: CALLS, injection }
    const { lines } = await ProgramUnderStrace.run('start-program.ts', [copy, flag], trace)
    return lines[0] ?? 'killed'
  }

  /** Starts what that has left. @returns what it shows, or the code of its error */
  async look(flags: Flags): Promise<string> {
    let store: CellStore
    try {
      const objectStore = objectsIn(this.#copy)
      store = await CellStore.open(path.join(this.#copy, 'data'), { objectStore, ...flags })
    } catch (error) {
      if (isCellError(error)) return error.code
      throw error
    }
    try {
      const cell = store.openCell(this.#cell)
      await cell.ensureLocal()
      await untilServed(cell)
      const keys = cell.kv.list().entries.map(({ key }) => key)
      return [...keys, ...(store.accounts.find(this.#account) ? ['account'] : [])].join(' ')
    } finally {
      await store.close()
    }
  }
}

function objectsIn(root: string): FileObjectStore {
  return new FileObjectStore({ root: path.join(root, 'objects') })
}
