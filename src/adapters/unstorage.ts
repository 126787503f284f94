// cellstore/unstorage: a driver for unstorage, and so for Nitro and Nuxt.

import type { Driver, TransactionOptions } from 'unstorage'
import { checkOptions, judgedByReader, maybe, type Shape, TEXT } from '../base/options/option-shapes.ts'
import { type Cell, CellError, type KvPutOptions } from '../index.ts'
import { deleteBelow } from './delete-below.ts'

/** Which of the cell's entries {@link cellDriver} has, and how long they live. */
export interface CellDriverOptions {
  /** What all keys of the driver begin with in the cell, with `:` behind it. Without it the driver has all of the cell's entries. */
  base?: string | undefined
  /** Seconds to live of an item that is set without a `ttl`. By default it does not expire. */
  ttl?: number | undefined
}

const OPTIONS: Shape<CellDriverOptions> = {
  base: maybe(TEXT),
  ttl: maybe(judgedByReader('a number of seconds')),
}

/**
 * A driver that keeps its items as the entries of a cell. Changes of one turn of the event loop share one fsync; `setItems()` sets all
 * or none. `setItem()` takes `ttl` in seconds, with parts of them; `ifMatch` with an `etag` of `getMeta()`, or `'*'`; and `ifNoneMatch: '*'`.
 *
 * ```ts
 * const storage = createStorage({ driver: cellDriver(store.cell('cache')) })
 * ```
 *
 * Its methods reject as those of `cell.kv` throw: `invalid_key`, `value_too_large`, `invalid_ttl`, `precondition_failed` and others.
 */
export function cellDriver(cell: Cell, options: CellDriverOptions = {}): Driver {
  checkOptions(options, OPTIONS)
  const { kv } = cell
  const prefix = options.base ? `${options.base.replace(/:$/, '')}:` : ''
  const at = (key: string) => prefix + key
  const get = (key: string) => kv.get(at(key)) ?? null
  const put = (key: string, value: string, opts: TransactionOptions = {}) =>
    kv.put(at(key), value, putOptions({ ttl: options.ttl, ...opts }))
  return {
    name: 'cellstore',
    options,
    getInstance: () => cell,
    hasItem: (key) => kv.ttl(at(key)) !== null,
    getItem: get,
    getItems: (items) => items.map(({ key }) => ({ key, value: get(key) })),
    async setItem(key, value, opts) {
      await cell.commit(() => put(key, value, opts))
    },
    async setItems(items, common) {
      await cell.commit(() => {
        for (const { key, value, options } of items) put(key, value, { ...common, ...options })
      })
    },
    async removeItem(key) {
      await cell.commit(() => kv.delete(at(key)))
    },
    getMeta(key) {
      const entry = kv.entry(at(key))
      if (entry === undefined) return null
      const { version, ttlSeconds, expiresAt } = entry
      return { etag: version, ...(expiresAt === null ? {} : { ttl: ttlSeconds }) }
    },
    async getKeys(base = '') {
      const keys: string[] = []
      for await (const key of kv.keys({ prefix: at(base) })) keys.push(key.slice(prefix.length))
      return keys
    },
    clear: (base = '') => deleteBelow(cell, at(base)),
  }
}

function putOptions({ ttl, ifMatch, ifNoneMatch }: TransactionOptions): KvPutOptions {
  if (ifNoneMatch !== undefined && (ifNoneMatch !== '*' || ifMatch !== undefined)) {
    const field = 'ifNoneMatch'
    throw new CellError('invalid_request', `${field} is '*', and not together with ifMatch.`, { field })
  }
  return {
    ...(ttl ? { ttlMs: Math.ceil(ttl * 1_000) } : {}),
    ...(ifMatch === undefined ? {} : { ifVersion: ifMatch }),
    ...(ifNoneMatch === undefined ? {} : { ifVersion: null }),
  }
}
