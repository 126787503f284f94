import type * as z from 'zod'
import type { CellErrorCode } from '../../src/errors.ts'

export interface Success {
  readonly status: number
  readonly summary: string
  /** Undefined: it has no body. */
  readonly answer?: z.ZodType
  readonly mediaType?: string
  readonly answerHeaders?: Readonly<Record<string, string>>
}

/** What the OpenAPI document says of a route, beyond what the route's action says: its key, and the schema of its body. */
export interface Operation {
  /** The operationId: the name of the method of clients. */
  readonly id: string
  readonly tag: 'Node' | 'API keys' | 'Accounts' | 'Cells' | 'SQL' | 'Hrana' | 'KV' | 'Backups'
  readonly summary: string
  /** The parameters of its query. */
  readonly query?: Readonly<Record<string, z.ZodType>>
  /** Headers that it reads beyond the key. */
  readonly headers?: Readonly<Record<string, z.ZodType>>
  /** 200 by default. */
  readonly status?: number
  /** Whether its body may be a database, instead of JSON. */
  readonly file?: true
  /** The schema of a success's body. Undefined: it is a database. */
  readonly answer?: z.ZodType
  /** Of that body; `application/json` by default. */
  readonly mediaType?: string
  /** Headers of a success beyond those of every answer, with what they hold. */
  readonly answerHeaders?: Readonly<Record<string, string>>
  /** Another success. */
  readonly otherwise?: Success
  /** Codes beyond those of every route of its kind: see route-codes.ts. */
  readonly codes?: readonly CellErrorCode[]
}

/** By method and path: `GET /v1/databases`. */
export type Operations = Readonly<Record<string, Operation>>
