import type { CellAccess } from '../backup/changes/cell-access.ts'
import { exists } from '../base/durable-files.ts'
import type { StorePaths } from '../base/store-paths.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { CellRegistry } from '../catalog/cell-registry.ts'
import type { CellPool } from '../engine/cell-pool.ts'

interface CellAccessParts {
  paths: StorePaths
  catalog: Catalog
  registry: CellRegistry
  pool: CellPool
  /** A cell was restored: nothing that was known of its content holds any more. */
  onRestored(id: string): void
}

/** The store's cells as backups see them: the catalog is one of them, under the store's own id. */
export function storeCellAccess({ paths, catalog, registry, pool, onRestored }: CellAccessParts): CellAccess {
  const isCatalog = (id: string) => id === catalog.storeId
  const isOpen = (id: string) => isCatalog(id) || pool.peek(id) !== undefined
  return {
    record: (id) => registry.find(id),
    paths: (id) => (isCatalog(id) ? paths.catalogCell : paths.cell(id)),
    pin: (id) => (isCatalog(id) ? { database: catalog.database, unpin: () => {} } : pool.pin(id)),
    isOpen,
    isLocal: (id) => isOpen(id) || exists(paths.cell(id).database),
    replace: (id, install) => pool.replace(id, install),
    restored: (id, manifest) => {
      const record = registry.find(id)
      if (record === undefined) {
        catalog.change(() =>
          registry.insert({
            id,
            accountId: manifest.account_id,
            name: manifest.name,
            createdAt: Date.parse(manifest.cell_created_at),
            deletedAt: null,
            durability: manifest.durability,
          }),
        )
      } else if (record.deletedAt !== null) registry.setDeleted(id, null)
      onRestored(id)
    },
  }
}
