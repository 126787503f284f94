import type { HealthDocument, ReadyDocument } from '../../answers/health-answers.ts'
import { ok, openAction } from '../../core/action.ts'

/** The process serves. */
export const healthz = openAction(() => ok({ status: 'ok' } satisfies HealthDocument))

/** Any id will do: what is asked is whether the catalog answers. */
const NO_CELL = '00000000-0000-0000-0000-000000000000'

/**
 * The catalog is open. The object store plays no part: without it, cells are still read and written. Nor do damaged backups,
 * but a monitor must see how many cells have them. Anyone may ask, so no cell is named.
 */
export const readyz = openAction(({ context: { store } }) => {
  store.findCell(NO_CELL)
  const damaged = store.verifications?.damagedCount() ?? 0
  return ok({ status: 'ready', damaged_backups: damaged } satisfies ReadyDocument)
})
