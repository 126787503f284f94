import type { Durability } from '../../../src/engine/cell-settings.ts'
import { writeOut } from '../write-out.ts'
import { entriesAfter } from './ledger.ts'

/** What a program says of its work, one JSON object a line, before and after each step. */
export type Event =
  /** It is about to be done; whether it is, nobody can say before its `done`. */
  | { began: 'create' | 'schema' | 'delete'; cell: string }
  | { began: 'write'; cell: string; n: number }
  | { began: 'restore'; cell: string; version: string }
  /** The first thing that was begun on that cell and is not done yet, is. */
  | { done: string; id?: string }
  /** The last write that was begun on that cell was refused: what comes after it goes on without it. */
  | { refused: string }
  /** The cell was backed up, and nothing was written to it meanwhile. */
  | { backedUp: string; version: string }
  /** An account was made. */
  | { account: string }
  /** The store has been closed: in `relaxed`, too, all is on disk. */
  | { closed: true }

export function say(event: Event): void {
  writeOut(`${JSON.stringify(event)}\n`)
}

/** What a cell holds: nothing where it is absent, `[]` before there is a ledger in it. */
export type CellState = { id: string; entries: readonly number[] | undefined } | undefined

export interface Backup {
  cell: string
  version: string
  entries: readonly number[] | undefined
}

interface CellHistory {
  /** One after the other. */
  states: CellState[]
  /** The newest that was acknowledged: it, or one begun after it, is what may be there. */
  sure: number
  /** Of a relaxed cell: a power loss may take back what came after it, but for what is not just written to the cell. */
  onDisk: number
  writes: Set<number>
  /** States that were refused. A power loss may still bring one of them, until something newer is acknowledged. */
  refused: Set<number>
  /** The newest backup that was answered. */
  backup: Backup | undefined
}

/** What was promised so far, from what a program has said. */
export class Acknowledgements {
  readonly cells = new Map<string, CellHistory>()
  readonly backups: Backup[] = []
  readonly accounts: string[] = []
  readonly #durability: Durability

  constructor(durability: Durability = 'full') {
    this.#durability = durability
  }

  hear(event: Event): void {
    if ('began' in event) this.#begin(event)
    else if ('done' in event) this.#done(event.done, event.id)
    else if ('refused' in event) this.#refused(event.refused)
    else if ('backedUp' in event) this.#backedUp(event.backedUp, event.version)
    else if ('account' in event) this.accounts.push(event.account)
    else for (const history of this.cells.values()) history.onDisk = history.states.length - 1
  }

  /** The states that a cell may be in. One that is being made has no id yet, and may be there under any. */
  allowed(cell: string): CellState[] {
    const { states, sure, onDisk } = this.#history(cell)
    return states.slice(this.#durability === 'relaxed' ? Math.min(onDisk, sure) : sure)
  }

  #begin(event: Extract<Event, { began: string }>): void {
    const history = this.#history(event.cell)
    if (event.began === 'write' || event.began === 'schema') history.writes.add(history.states.length)
    history.states.push(this.#after(lastOf(history), event))
  }

  #after(before: CellState, event: Extract<Event, { began: string }>): CellState {
    switch (event.began) {
      case 'create':
        return { id: '', entries: undefined }
      case 'delete':
        return undefined
      case 'schema':
        return { id: before?.id ?? '', entries: [] }
      case 'write':
        return { id: before?.id ?? '', entries: entriesAfter(before?.entries ?? [], event.n) }
      case 'restore': {
        const { id } = this.#history(event.cell).states.find((state) => state !== undefined) as { id: string }
        return { id, entries: this.backups.find(({ version }) => version === event.version)?.entries }
      }
    }
  }

  #done(cell: string, id: string | undefined): void {
    const history = this.#history(cell)
    do history.sure++
    while (history.refused.has(history.sure))
    const now = history.states[history.sure]
    if (id !== undefined && now !== undefined) now.id = id
    if (!history.writes.has(history.sure)) history.onDisk = history.sure
  }

  #refused(cell: string): void {
    const history = this.#history(cell)
    history.refused.add(history.states.length - 1)
  }

  #backedUp(cell: string, version: string): void {
    const history = this.#history(cell)
    history.backup = { cell, version, entries: history.states[history.sure]?.entries }
    this.backups.push(history.backup)
  }

  #history(cell: string): CellHistory {
    let history = this.cells.get(cell)
    if (history === undefined) {
      history = {
        states: [undefined],
        sure: 0,
        onDisk: 0,
        writes: new Set(),
        refused: new Set(),
        backup: undefined,
      }
      this.cells.set(cell, history)
    }
    return history
  }
}

function lastOf({ states, refused }: CellHistory): CellState {
  return states.findLast((_, i) => !refused.has(i))
}
