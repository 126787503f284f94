// cellstore/keyv: a store for Keyv 5 and 6, and so for what is built on Keyv, such as cacheable and cache-manager.

import { systemClock } from '../base/clock.ts'
import type { Cell } from '../index.ts'
import { deleteBelow } from './delete-below.ts'

/** An entry of {@link KeyvCell.setMany}. */
export interface KeyvCellEntry {
  key: string
  value: string
  /** Of Keyv 5: milliseconds to live. */
  ttl?: number | undefined
  /** Of Keyv 6: epoch milliseconds. */
  expires?: number | undefined
}

/**
 * A store for Keyv that keeps its entries as those of a cell. Changes of one turn of the event loop share one fsync, and each
 * resolves once it is on disk; `setMany()` and `deleteMany()` change all or none. A namespace is what keys begin with, with `:` behind it:
 * `clear()` and iteration keep to it, and without one they have all entries of the cell. Make one for each Keyv: it holds the namespace.
 *
 * ```ts
 * const cache = new Keyv({ store: new KeyvCell(store.cell('cache')), namespace: 'users' })
 * ```
 *
 * Its methods reject as those of `cell.kv` throw, and Keyv emits that: `invalid_key`, `value_too_large`, `invalid_ttl` and others.
 */
export class KeyvCell {
  /** Set by Keyv. */
  namespace: string | undefined
  /** Keyv 5 iterates over the dialects that it knows. */
  readonly opts = { dialect: 'sqlite' }
  readonly #cell: Cell
  /** Keyv 6 gives moments, and leaves the namespace to its store. Keyv 5 gives durations, and keys with their namespace. */
  #isSix = false

  constructor(cell: Cell) {
    this.#cell = cell
  }

  /** Keyv 6 asks for them before anything else, and Keyv 5 never does. */
  get capabilities(): { expires: true } {
    this.#isSix = true
    return { expires: true }
  }

  /** The value; undefined if there is no live entry. */
  async get(key: string): Promise<string | undefined> {
    return this.#cell.kv.get(this.#at(key))
  }

  /** As {@link get}, for several keys in their order. */
  async getMany(keys: string[]): Promise<(string | undefined)[]> {
    return keys.map((key) => this.#cell.kv.get(this.#at(key)))
  }

  /**
   * Sets an entry; one whose time has passed is deleted.
   *
   * @param time milliseconds: to live for Keyv 5, since the epoch for Keyv 6
   */
  async set(key: string, value: string, time?: number): Promise<boolean> {
    await this.#cell.commit(() => this.#put(key, value, time))
    return true
  }

  /** Sets all entries or none. */
  async setMany(entries: KeyvCellEntry[]): Promise<boolean[]> {
    return await this.#cell.commit(() =>
      entries.map(({ key, value, ttl, expires }) => this.#put(key, value, this.#isSix ? expires : ttl)),
    )
  }

  /** Whether there is a live entry. */
  async has(key: string): Promise<boolean> {
    return this.#cell.kv.ttl(this.#at(key)) !== null
  }

  /** As {@link has}, for several keys in their order. */
  async hasMany(keys: string[]): Promise<boolean[]> {
    return keys.map((key) => this.#cell.kv.ttl(this.#at(key)) !== null)
  }

  /** @returns whether there was a live entry */
  async delete(key: string): Promise<boolean> {
    return await this.#cell.commit(() => this.#cell.kv.delete(this.#at(key)))
  }

  /** Deletes all or none. @returns as {@link delete}, for each key in their order; for Keyv 5, whether there was any */
  async deleteMany(keys: string[]): Promise<boolean[] | boolean> {
    const deleted = await this.#cell.commit(() => keys.map((key) => this.#cell.kv.delete(this.#at(key))))
    return this.#isSix ? deleted : deleted.includes(true)
  }

  /** Deletes the entries of the namespace, or all of the cell's. */
  async clear(): Promise<void> {
    await deleteBelow(this.#cell, prefixOf(this.namespace))
  }

  /** Keys and values. */
  async *iterator(namespace = this.namespace): AsyncGenerator<[key: string, value: string], void> {
    const prefix = prefixOf(namespace)
    for await (const { key, value } of this.#cell.kv.list({ prefix }))
      yield [this.#isSix ? key.slice(prefix.length) : key, value]
  }

  #at(key: string): string {
    return this.#isSix ? prefixOf(this.namespace) + key : key
  }

  #put(key: string, value: string, time: number | undefined): true {
    const { kv } = this.#cell
    const ttlMs = time === undefined ? undefined : Math.ceil(this.#isSix ? time - systemClock.now() : time)
    if (ttlMs === undefined) kv.put(this.#at(key), value)
    else if (ttlMs > 0) kv.put(this.#at(key), value, { ttlMs })
    else kv.delete(this.#at(key))
    return true
  }
}

function prefixOf(namespace: string | undefined): string {
  return namespace ? `${namespace}:` : ''
}
