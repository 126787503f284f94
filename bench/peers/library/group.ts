import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import type { Outcome, Row } from '../results.ts'
import { type Contender, takeTurns, type Turn } from '../turns.ts'
import type { Ask } from './peer-process.ts'
import { WORKS } from './works.ts'

export const LIBRARY_PEERS = {
  cellstore: 'cellstore.ts',
  'better-sqlite3': 'better-sqlite3.ts',
  'node:sqlite': 'node-sqlite.ts',
  lmdb: 'lmdb.ts',
  'classic-level': 'classic-level.ts',
  'Deno KV': 'deno-kv.ts',
  Keyv: 'keyv.ts',
  Redis: 'redis.ts',
}

type Answer = { version: string } | { turn: Turn } | { absent: string } | { failed: string }

/** A store in a process of its own. */
class LibraryProcess implements Contender {
  readonly name: string
  version = ''
  readonly #child: ChildProcess

  constructor(name: string, file: string, directory: string) {
    this.name = name
    fs.mkdirSync(directory, { recursive: true })
    const here = import.meta.dirname
    this.#child = fork(path.join(here, 'peer-process.ts'), [path.join(here, file), directory])
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** @returns why it can't take part, if it can't */
  async ready(): Promise<string | undefined> {
    const answer = await this.#answer()
    if (!('version' in answer)) return 'failed' in answer ? answer.failed : 'it gave no version'
    this.version = answer.version
    return undefined
  }

  /** @returns undefined if the store has no such operation */
  async turn(ask: Ask): Promise<Turn | undefined> {
    this.#child.send(ask)
    const answer = await this.#answer()
    if ('failed' in answer) throw new Error(answer.failed)
    return 'turn' in answer ? answer.turn : undefined
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return
    const exited = once(this.#child, 'exit')
    if (this.#child.connected) this.#child.disconnect()
    await exited
  }

  async #answer(): Promise<Answer> {
    const settled = new AbortController()
    const { signal } = settled
    const ended = once(this.#child, 'exit', { signal }).then(
      ([code]) => ({ failed: `its process ended with ${code}` }),
      () => ({ failed: '' }),
    )
    const answered = once(this.#child, 'message', { signal }).then(
      ([message]) => message as Answer,
      () => ({ failed: '' }),
    )
    try {
      return await Promise.race([answered, ended])
    } finally {
      settled.abort()
    }
  }
}

/**
 * @param names of {@link LIBRARY_PEERS}
 * @param works of {@link WORKS}
 */
export async function compareLibraries(
  directory: string,
  { rounds, turnMs }: { rounds: number; turnMs: number },
  names = Object.keys(LIBRARY_PEERS) as (keyof typeof LIBRARY_PEERS)[],
  works = Object.keys(WORKS),
): Promise<Row[]> {
  const absent: Record<string, Outcome> = {}
  const contenders: LibraryProcess[] = []
  try {
    for (const name of names) {
      const file = LIBRARY_PEERS[name]
      const contender = new LibraryProcess(name, file, path.join(directory, file))
      const reason = await contender.ready()
      if (reason === undefined) contenders.push(contender)
      else {
        absent[name] = { absent: reason }
        await contender.stop()
      }
    }
    const rows: Row[] = []
    for (const work of works) {
      const able: LibraryProcess[] = []
      const unable: Record<string, Outcome> = {}
      for (const each of contenders) {
        if ((await each.turn({ work, ms: 1 })) !== undefined) able.push(each)
        else unable[each.name] = { absent: 'it has no such operation' }
      }
      const measured = await takeTurns(able, {
        rounds,
        warmUp: (each) => each.turn({ work, ms: turnMs }),
        turn: async (each) => (await each.turn({ work, ms: turnMs })) as Turn,
      })
      rows.push({ group: 'library', what: work, unit: '/s', contenders: { ...measured, ...unable, ...absent } })
    }
    return rows
  } finally {
    for (const each of contenders) await each.stop()
  }
}
