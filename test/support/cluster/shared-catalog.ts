import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { Accounts } from '../../../src/auth/accounts.ts'
import { ApiKeys } from '../../../src/auth/api-keys.ts'
import { Idempotency } from '../../../src/auth/idempotency.ts'
import { type Clock, systemClock } from '../../../src/base/clock.ts'
import { DEFAULT_LIMITS } from '../../../src/base/options/limits.ts'
import { AccountQuotas, type Quotas } from '../../../src/catalog/account-quotas.ts'
import { Catalog } from '../../../src/catalog/catalog.ts'
import { CellRegistry } from '../../../src/catalog/cell-registry.ts'
import { Database } from '../../../src/cluster/postgres/database.ts'
import { PostgresCatalog, type PostgresCatalogParts } from '../../../src/cluster/postgres/postgres-catalog.ts'
import { CATALOG_SCHEMA } from '../../../src/store/store-core.ts'

/** A node's catalog with what uses it, as a store puts them together. */
export class CatalogNode {
  readonly id = randomUUID()
  readonly catalog: Catalog
  readonly accounts: Accounts
  readonly keys: ApiKeys
  readonly registry: CellRegistry
  readonly idempotency: Idempotency
  readonly quotas: AccountQuotas

  /** @param directory has the catalog's file, or gets one */
  constructor(directory: string, storeId: string, limits: Quotas = {}, clock: Clock = systemClock) {
    const file = path.join(directory, 'catalog.db')
    if (!fs.existsSync(file)) Catalog.write(file, { storeId, createdAt: 0, schema: CATALOG_SCHEMA })
    const settings = { pageCacheBytes: 1_048_576, checkpointBytes: 4_194_304, limits: DEFAULT_LIMITS }
    this.catalog = new Catalog(
      file,
      { ...settings, durability: 'full', sqlPolicy: 'trusted' },
      CATALOG_SCHEMA.upgrades,
      () => {},
    )
    this.accounts = new Accounts(this.catalog, clock, 100)
    this.quotas = new AccountQuotas(limits, clock, (id) => this.accounts.quotasOf(id))
    const { catalog, accounts, quotas } = this
    this.keys = new ApiKeys({ catalog, accounts, quotas, clock, limits: DEFAULT_LIMITS })
    this.registry = new CellRegistry(catalog, { pageMax: 100, deletedMax: limits.cellsMax })
    this.idempotency = new Idempotency(catalog, limits, clock)
  }

  /** Makes the record of a cell as a creation does, within its account's quota, and once. */
  async createCell(accountId: string, { name = null as string | null, key = '' } = {}): Promise<string> {
    const { catalog, registry, idempotency, quotas } = this
    const request = { method: 'POST', path: '/v1/databases', key, fingerprint: name ?? '' }
    return await catalog.durably(() => {
      const first = key === '' ? undefined : idempotency.find(accountId, request)
      if (first !== undefined) return first
      quotas.checkCells(accountId, () => registry.count(accountId))
      registry.checkName(accountId, name)
      const id = randomUUID()
      registry.insert({ id, accountId, name, createdAt: 1, durability: null }, () => {
        if (key !== '') idempotency.insert(accountId, request, id)
      })
      return id
    })
  }

  /** All that nodes share, in the order of its keys. */
  content(): unknown[] {
    const tables = ['accounts', 'api_keys', 'cells', 'idempotency']
    const keys = ['id', 'number', 'number', 'account_id, method, path, key']
    return tables.map((table, i) =>
      this.catalog.database.prepare(`SELECT * FROM ${table} ORDER BY ${keys[i]}`).all(),
    )
  }
}

/** A node whose catalog is part of a cluster's. */
export class ClusterNode extends CatalogNode {
  database!: Database
  shared!: PostgresCatalog

  /** @param url of a database; the first node there begins the cluster */
  static async join(
    directory: string,
    url: string,
    storeId: string,
    options: { limits?: Quotas; parts?: Partial<PostgresCatalogParts>; deadlineMs?: number } = {},
  ): Promise<ClusterNode> {
    const node = new ClusterNode(directory, storeId, options.limits)
    await node.connect(url, options)
    return node
  }

  async connect(
    url: string,
    { parts = {}, deadlineMs = 5_000 }: { parts?: Partial<PostgresCatalogParts>; deadlineMs?: number } = {},
  ): Promise<void> {
    this.database = await Database.connect(url, { deadlineMs })
    await this.database.query(
      `INSERT INTO cellstore.nodes (id, address, prefix, epoch, state, started_at) VALUES ($1, '', '', 1, 'alive', 0)
       ON CONFLICT DO NOTHING`,
      [this.id],
    )
    const { catalog, id: nodeId, database } = this
    this.shared = new PostgresCatalog({
      catalog,
      nodeId,
      database,
      clock: systemClock,
      random: () => 0,
      ...parts,
    })
    await this.shared.seed()
    await this.shared.catchUp()
  }

  async close(): Promise<void> {
    await this.database.close()
    this.catalog.close()
  }
}
