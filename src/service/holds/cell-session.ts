import type { Hold } from '../../engine/holds/hold.ts'
import type { WalEnd } from '../../engine/wal/wal-end.ts'
import { CellError } from '../../errors.ts'
import type { Cell, HeldCell } from '../../store/open/cell.ts'

/** The open transaction of a session. */
export interface SessionHold {
  tx: HeldCell
  hold: Hold
}

export interface SessionParts {
  begin(readOnly: boolean): SessionHold
  /** What follows may be committed. @param before as in `Hold` */
  committing(before: WalEnd | undefined): void
  /** It was. */
  committed(): void
}

/**
 * A cell as an operation has it that begins and ends transactions itself, or goes on in one that an earlier operation has begun. What it
 * changes belongs into a transaction.
 */
export class CellSession {
  readonly #cell: Cell
  readonly #parts: SessionParts
  #open: SessionHold | undefined

  /** @param open the transaction that an earlier operation has left open */
  constructor(cell: Cell, parts: SessionParts, open: SessionHold | undefined) {
    this.#cell = cell
    this.#parts = parts
    this.#open = open
  }

  /** The cell, inside of the open transaction if there is one. */
  get cell(): Cell {
    return this.#open?.tx ?? this.#cell
  }

  /** True also after a statement has ended the transaction: until the session has rolled it back. */
  get inTransaction(): boolean {
    return this.#open !== undefined
  }

  get open(): SessionHold | undefined {
    return this.#open
  }

  /** @throws `busy` while another transaction holds the cell; `invalid_request` in a transaction */
  begin({ readOnly = false }: { readOnly?: boolean } = {}): void {
    if (this.#open !== undefined)
      throw new CellError('invalid_request', 'A transaction is open already. Use a savepoint.')
    this.#open = this.#parts.begin(readOnly)
  }

  /** @throws as `Hold.commit`; the transaction is over then, too */
  commit(): void {
    const { hold } = this.#transaction
    this.#open = undefined
    this.#parts.committing(hold.before)
    hold.commit()
    this.#parts.committed()
  }

  rollback(): void {
    this.#transaction.hold.rollback()
    this.#open = undefined
  }

  savepoint(name: string): void {
    this.#transaction.hold.savepoint(name)
  }

  releaseSavepoint(name: string): void {
    this.#transaction.hold.releaseSavepoint(name)
  }

  rollbackTo(name: string): void {
    this.#transaction.hold.rollbackTo(name)
  }

  get #transaction(): SessionHold {
    if (this.#open === undefined) throw new CellError('invalid_request', 'No transaction is open.')
    return this.#open
  }
}
