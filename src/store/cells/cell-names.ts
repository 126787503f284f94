import { isCellId } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import { checkDisplayName } from '../../base/options/display-name.ts'
import { shownValue } from '../../base/options/shown-value.ts'
import type { CellRecord, CellRegistry } from '../../catalog/cell-registry.ts'
import { CellError } from '../../errors.ts'

/** The names of cells: an address within an account, or among the cells that only the library uses. */
export class CellNames {
  readonly #registry: CellRegistry
  readonly #log: Log

  constructor(registry: CellRegistry, log: Log) {
    this.#registry = registry
    this.#log = log
  }

  /**
   * The cell of a name; undefined if no cell has it.
   *
   * @throws `invalid_request`, `name_ambiguous` if an earlier version has made several cells of this name
   */
  find(accountId: string | null, name: string): string | undefined {
    if (typeof name !== 'string' || name === '')
      throw new CellError('invalid_request', 'name is a string, and not empty.', { field: 'name' })
    checkDisplayName(name)
    return this.lookUp(accountId, name)
  }

  /** As {@link find}, for any text: what can be no name is no cell's. @throws `invalid_request`, `name_ambiguous` */
  lookUp(accountId: string | null, name: string): string | undefined {
    for (const [field, value] of Object.entries({ accountId: accountId ?? '', name })) {
      if (typeof value !== 'string')
        throw new CellError('invalid_request', `${field} is a string.`, { field })
    }
    const [id, ...others] = this.#registry.named(accountId, name)
    if (id !== undefined && others.length > 0) throw ambiguous([id, ...others])
    return id
  }

  /** @throws as `CellStore.renameCell` */
  rename(id: string, name: string | null): void {
    if (name !== null) checkDisplayName(name)
    if (name === undefined)
      throw new CellError('invalid_request', 'name is a string or null.', { field: 'name' })
    this.#registry.rename(id, name)
  }

  /** The name with which a deleted or forgotten cell comes back: none if another cell has it by now. */
  forReturning({ id, accountId, name }: Pick<CellRecord, 'id' | 'accountId' | 'name'>): string | null {
    if (name === null) return null
    const [holder] = this.#registry.named(accountId, name)
    if (holder === undefined) return name
    this.#log.warn(
      { cellId: id, holder },
      'a restored cell has no name now: another cell has taken it meanwhile',
    )
    return null
  }
}

/**
 * A library's caller may have taken a name for an id. Over HTTP it is one answer for all.
 *
 * @throws `cell_not_found` for a text that is no id
 */
export function checkIsId(id: unknown): void {
  if (typeof id !== 'string' || isCellId(id)) return
  const text = `There is no such cell: ${shownValue(id)} is not an id. store.cell(name) takes a name.`
  throw new CellError('cell_not_found', text)
}

function ambiguous(ids: readonly string[]): CellError {
  return new CellError(
    'name_ambiguous',
    `Several cells have this name: ${ids.join(', ')}. Use an id, and rename all but one of them.`,
    { field: 'name' },
  )
}
