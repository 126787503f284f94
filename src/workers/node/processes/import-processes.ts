import { type Stats, stat } from 'node:fs'
import type { Clock } from '../../../base/clock.ts'
import { AccountPlaces } from '../../../base/fairness/account-places.ts'
import type { Log } from '../../../base/log.ts'
import { invalidDatabase } from '../../../engine/files/database-header.ts'
import { checkSize } from '../../../engine/files/import-database.ts'
import { CellError } from '../../../errors.ts'
import type { CellBuild } from '../../../store/cells/cell-imports.ts'
import { CheckerProcess } from '../../children/checker-process.ts'

/** Checks that run at the same time: each takes a core. */
const AT_ONCE = 2
/** So long a process may write before anybody looks. */
const LOOK_EVERY_MS = 50

/**
 * Checks imported databases, each in a process of its own, and ends those that take too long. An account has one check at a
 * time: its others wait for it, and not its neighbours.
 */
export class ImportProcesses {
  readonly #clock: Clock
  readonly #log: Log
  readonly #checks = new Set<Promise<void>>()
  readonly #places = new AccountPlaces(AT_ONCE)
  readonly #stop = new AbortController()

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** @throws `invalid_database`, as `importDatabase`; the signal's reason; `shutting_down` */
  run(build: CellBuild): Promise<void> {
    return this.#places.run(build.accountId ?? '', build.signal, () => this.#begin(build))
  }

  async #begin(build: CellBuild): Promise<void> {
    build.signal?.throwIfAborted()
    this.#stop.signal.throwIfAborted()
    const check = this.#check(build)
    this.#checks.add(check)
    await check.finally(() => this.#checks.delete(check))
  }

  /** Ends all checks: nothing of their imports remains. */
  async stop(): Promise<void> {
    this.#stop.abort(stopping())
    await Promise.allSettled(this.#checks)
  }

  async #check({ source, target, bytes, rules, signal }: CellBuild): Promise<void> {
    const over = AbortSignal.any(signal === undefined ? [this.#stop.signal] : [this.#stop.signal, signal])
    const checker = new CheckerProcess(bytes, this.#clock, this.#log)
    const growth = watchSize(this.#clock, target, (size) => {
      if (size > rules.cellBytesMax) checker.kill()
    })
    try {
      if ((await checker.run({ kind: 'import', file: source, target, rules }, over)) !== undefined) return
    } finally {
      growth.stop()
    }
    checkSize(growth.bytes(), rules)
    throw invalidDatabase('Its check took too much time or memory')
  }
}

function stopping(): CellError {
  return new CellError('shutting_down', 'The node is stopping. Nothing was imported.')
}

/** Looks again and again how large a file is that another process writes. @param onSize called with each size */
function watchSize(clock: Clock, file: string, onSize: (bytes: number) => void) {
  let isOver = false
  /** As it was seen last; 0 while there is no file. */
  let bytes = 0
  const look = () =>
    stat(file, (_, found?: Stats) => {
      if (isOver) return
      bytes = found?.size ?? 0
      onSize(bytes)
      timer = clock.setTimer(look, LOOK_EVERY_MS)
    })
  let timer = clock.setTimer(look, LOOK_EVERY_MS)
  return {
    bytes: () => bytes,
    stop: () => {
      isOver = true
      timer.cancel()
    },
  }
}
