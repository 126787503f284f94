import type { Clock } from '../../base/clock.ts'
import { KeyedQueue } from '../../base/keyed-queue.ts'
import type { Log } from '../../base/log.ts'
import { invalidDatabase } from '../../engine/database-header.ts'
import { checkSize } from '../../engine/import-database.ts'
import { CellError } from '../../errors.ts'
import type { CellBuild } from '../../store/cell-imports.ts'
import type { FromImporter, ToImporter } from '../protocol/importer-protocol.ts'
import { logForChild } from '../protocol/log-message.ts'
import { fromWireError } from '../protocol/wire-error.ts'
import { ChildLink } from './child-link.ts'
import { FileGrowth } from './file-growth.ts'
import { spawnImporter } from './spawn-child.ts'

/** Checks that run at the same time: each takes a core. */
const AT_ONCE = 2
/** Bytes of memory that a check may take: SQLite reads page by page. */
const MEMORY_BYTES = 256 * 1_048_576
/** How long the check of a database may take: ten times what a slow disk needs. */
const CHECK_MS_MIN = 20_000
const BYTES_PER_MS_MIN = 4_096

type Importer = ChildLink<ToImporter, FromImporter>

/**
 * Checks imported databases, each in a process of its own, and ends those that take too long. An account has one check at a
 * time: its others wait for it, and not its neighbours.
 */
export class ImportProcesses {
  readonly #clock: Clock
  readonly #log: Log
  readonly #accounts = new KeyedQueue()
  readonly #running = new Set<Importer>()
  readonly #waiting: (() => void)[] = []
  #taken = 0
  #stopped = false

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** @throws `invalid_database`, as `importDatabase`; the signal's reason; `shutting_down` */
  run(build: CellBuild): Promise<void> {
    return this.#accounts.run(build.accountId ?? '', () => this.#inTurn(build))
  }

  async #inTurn(build: CellBuild): Promise<void> {
    await this.#turn()
    try {
      build.signal?.throwIfAborted()
      if (this.#stopped) throw stopping()
      await this.#check(build)
    } finally {
      this.#taken--
      this.#waiting.shift()?.()
    }
  }

  /** Ends all checks: nothing of their imports remains. */
  async stop(): Promise<void> {
    this.#stopped = true
    for (const importer of this.#running) importer.kill()
    await Promise.all([...this.#running].map(({ ended }) => ended))
  }

  async #turn(): Promise<void> {
    if (this.#taken >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#taken++
  }

  async #check({ source, target, bytes, rules, signal }: CellBuild): Promise<void> {
    let done: Extract<FromImporter, { type: 'done' }> | undefined
    const importer: Importer = new ChildLink(spawnImporter(MEMORY_BYTES), (message) => {
      if (message.type === 'done') {
        done = message
        importer.kill()
      } else logForChild(this.#log, message, { importer: importer.identity.pid })
    })
    this.#running.add(importer)
    const msMax = CHECK_MS_MIN + Math.ceil(bytes / BYTES_PER_MS_MIN)
    const timer = this.#clock.setTimer(() => importer.kill(), msMax)
    const growth = new FileGrowth(this.#clock, target, (size) => {
      if (size > rules.cellBytesMax) importer.kill()
    })
    const abandon = () => importer.kill()
    signal?.addEventListener('abort', abandon, { once: true })
    try {
      importer.send({ source, target, rules })
      await importer.ended
    } finally {
      timer.cancel()
      growth.stop()
      signal?.removeEventListener('abort', abandon)
      this.#running.delete(importer)
    }
    if (done?.error !== undefined) throw fromWireError(done.error)
    if (done !== undefined) return
    signal?.throwIfAborted()
    if (this.#stopped) throw stopping()
    checkSize(growth.sizeBytes, rules)
    throw invalidDatabase('Its check took too much time or memory')
  }
}

function stopping(): CellError {
  return new CellError('shutting_down', 'The node is stopping. Nothing was imported.')
}
