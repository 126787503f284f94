import type { SqlPolicy } from '../../src/engine/cell-settings.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import type { HoldLimits } from '../../src/service/operations.ts'
import type { CellDirectory } from '../../src/store/cells/cell-directory.ts'

/** A service under test. */
export interface ServiceUnderTest {
  service: CellService
  store: CellDirectory & { readonly id: string }
  /** The store's directory is `data` in it. */
  folder: string
  /** Ends it; every file is whole afterwards. */
  close(): Promise<void>
}

export interface ServiceOptions {
  /** With a folder as the object store, or without one. */
  hasObjects: boolean
  incrementalEveryMs?: number
  /** `tenant` otherwise. */
  sqlPolicy?: SqlPolicy
  /** As in `RequestBounds`. */
  holds?: HoldLimits
  /** Where a store is already; in a new folder otherwise. */
  folder?: string
}

export type MakeService = (options: ServiceOptions) => Promise<ServiceUnderTest>
