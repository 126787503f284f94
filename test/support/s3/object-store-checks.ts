import { createHash } from 'node:crypto'
import { expect } from 'vitest'
import type { ObjectEntry, ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import { CellError, type CellErrorCode } from '../../../src/errors.ts'

export async function expectCode(work: Promise<unknown>, code: CellErrorCode): Promise<void> {
  const outcome = await work.then(
    () => 'no error',
    (error: unknown) => error,
  )
  expect(outcome).toBeInstanceOf(CellError)
  expect(outcome).toMatchObject({ code })
}

export async function collect(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks)
}

export async function collectAll<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

async function bytesOf(store: ObjectStore, key: string): Promise<Buffer> {
  const content = await store.get(key)
  expect(content).toBeDefined()
  return collect(content?.body ?? [])
}

/** Compares as buffers: a matcher that explains the difference takes seconds for a megabyte. */
export async function expectBytes(store: ObjectStore, key: string, expected: Uint8Array): Promise<void> {
  const stored = await bytesOf(store, key)
  expect(stored.equals(expected), `the bytes of ${key}`).toBe(true)
}

export async function sha256Of(store: ObjectStore, key: string): Promise<string> {
  const hash = createHash('sha256')
  const content = await store.get(key)
  for await (const chunk of content?.body ?? []) hash.update(chunk)
  return hash.digest('hex')
}

export async function entriesOf(store: ObjectStore, prefix: string): Promise<ObjectEntry[]> {
  return collectAll(store.list(prefix))
}

export async function keysOf(store: ObjectStore, prefix: string, after?: string): Promise<string[]> {
  const entries = await collectAll(store.list(prefix, { after }))
  return entries.map(({ key }) => key)
}
