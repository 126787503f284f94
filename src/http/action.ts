import { z } from 'zod'
import { isCellId } from '../base/store-paths.ts'
import { type CellRecord, cellNotFound } from '../catalog/cell-registry.ts'
import { CellError } from '../errors.ts'
import type { CellService } from '../service/cell-service.ts'
import type { CellDirectory } from '../store/cell-directory.ts'
import { parseFields } from './fields.ts'
import type { HttpLimits } from './handler-options.ts'
import type { HttpRequest } from './http-message.ts'
import type { JsonBody } from './request-body.ts'

/** What every route works on. */
export interface HttpContext {
  readonly store: CellDirectory
  readonly service: CellService
  readonly limits: HttpLimits
}

/** A request whose key was checked and whose body was read. */
export interface Call {
  readonly context: HttpContext
  readonly request: HttpRequest
  /** The path's segments that stand where the route has `{…}`, as they were sent. */
  readonly segments: readonly string[]
  /** Empty on routes that need no key. */
  readonly accountId: string
}

/** A call to a cell that the account owns. */
export interface CellCall extends Call {
  readonly cellId: string
  readonly cell: CellRecord
}

/** A call about a cell's backups: it may be deleted, or unknown to a catalog that was restored from an earlier backup. */
export interface ArchiveCall extends Call {
  readonly cellId: string
  readonly cell: CellRecord | undefined
}

export interface Answer {
  status: number
  json: string
  headers?: Record<string, string>
}

/** One route's work. Ownership is checked before the body's fields, and both before `run`. */
export interface Action {
  readonly needsKey: boolean
  readonly takesBody: boolean
  perform(call: Call, body: JsonBody): Answer | Promise<Answer>
}

/** What `run` gets beside the call: the body's fields, and whether its integers are exact. */
export type Run<C extends Call, B> = (call: C, body: B, exact: boolean) => Answer | Promise<Answer>

export const anyBody = z.object({})

/** A route that anyone may ask. */
export function openAction(run: (call: Call) => Answer): Action {
  return { needsKey: false, takesBody: false, perform: run }
}

/** A route of the account that the key belongs to. */
export function accountAction(run: (call: Call) => Answer | Promise<Answer>): Action {
  return { needsKey: true, takesBody: false, perform: run }
}

export function accountActionWith<B>(schema: z.ZodType<B>, run: Run<Call, B>): Action {
  return {
    needsKey: true,
    takesBody: true,
    perform: (call, { value, exact }) => run(call, parseFields(schema, value), exact),
  }
}

/** A route of a cell that is there and belongs to the account. */
export function cellAction(run: (call: CellCall) => Answer | Promise<Answer>): Action {
  return { needsKey: true, takesBody: false, perform: (call) => run(ownCell(call)) }
}

export function cellActionWith<B>(schema: z.ZodType<B>, run: Run<CellCall, B>): Action {
  return {
    needsKey: true,
    takesBody: true,
    perform: (call, { value, exact }) => {
      const own = ownCell(call)
      return run(own, parseFields(schema, value), exact)
    },
  }
}

/** A route of a cell's backups, which outlive it. */
export function archiveAction(run: (call: ArchiveCall) => Answer | Promise<Answer>): Action {
  return { needsKey: true, takesBody: false, perform: (call) => run(ownArchive(call)) }
}

export function archiveActionWith<B>(schema: z.ZodType<B>, run: Run<ArchiveCall, B>): Action {
  return {
    needsKey: true,
    takesBody: true,
    perform: (call, { value, exact }) => {
      const own = ownArchive(call)
      return run(own, parseFields(schema, value), exact)
    },
  }
}

export function ok(value: unknown): Answer {
  return { status: 200, json: JSON.stringify(value) }
}

/** Absent, deleted, another account's, or no id at all: all end here, so that no answer tells them apart. */
function ownCell(call: Call): CellCall {
  const cellId = call.segments[0] ?? ''
  const cell = call.context.store.findCell(cellId)
  if (cell === undefined || cell.accountId !== call.accountId || cell.deletedAt !== null) throw cellNotFound()
  return { ...call, cellId, cell }
}

/** Of a cell that the catalog does not know, the account is in its backups: who reads them checks it. */
function ownArchive(call: Call): ArchiveCall {
  const cellId = call.segments[0] ?? ''
  const cell = call.context.store.findCell(cellId)
  if (cell === undefined ? !isCellId(cellId) : cell.accountId !== call.accountId) throw cellNotFound()
  return { ...call, cellId, cell }
}

/**
 * A KV key from its path segment, decoded once. What clients' URL parsers would change on the way never gets here as it
 * was meant, so it is refused rather than taken for another key.
 *
 * @throws `invalid_key`
 */
export function decodeKey(segment: string): string {
  if (!/^[\x21-\x7e]*$/.test(segment)) throw badKey('is percent-encoded UTF-8 in the path')
  const key = segment.includes('%') ? decodeSegment(segment) : segment
  if (key === '.' || key === '..') {
    throw badKey('can not be "." or ".." in a path: use kv/ops/mget, kv/ops/mset or kv/ops/delete for those')
  }
  return key
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw badKey('is percent-encoded UTF-8 in the path')
  }
}

function badKey(why: string): CellError {
  return new CellError('invalid_key', `key ${why}.`, { field: 'key' })
}
