import { z } from 'zod'
import type { BackupProgressEvent } from '../../backup/versions/backup-types.ts'
import { CellError, type CellErrorCode, type CellErrorDetails, ERROR_KINDS } from '../../errors.ts'
import type { AdminService, Transfer } from './admin-service.ts'

/**
 * How a command speaks to a running node, over its Unix socket: `POST /<operation>` with the operation's input as a JSON
 * body. The answer is one JSON object a line: any number of `progress`, then one `result` or `error`. An empty line says
 * that the node is still at it.
 */
export const PROTOCOL_VERSION = 1

/** A node that is at work says so this often. */
export const HEARTBEAT_MS = 5_000
/** A command gives up on a node that has said nothing for this long. */
export const SILENCE_MS_MAX = 30_000

export interface Greeting {
  protocol: number
  version: string
  pid: number
}

export type AnswerLine =
  | { progress: BackupProgressEvent }
  | { result: unknown }
  | { error: { code: string; message: string; details?: Omit<CellErrorDetails, 'cause'> } }

const account = z.string().optional()
const cell = z.string()
const cursor = z.string().optional()

type Perform = (service: AdminService, input: unknown, transfer: Transfer) => Promise<unknown>

function operation<T>(
  schema: z.ZodType<T>,
  perform: (service: AdminService, input: T, transfer: Transfer) => Promise<unknown>,
): Perform {
  return (service, input, transfer) => {
    const parsed = schema.safeParse(input)
    if (parsed.success) return perform(service, parsed.data, transfer)
    throw new CellError(
      'invalid_request',
      'The running node does not understand this command: it is of another version.',
    )
  }
}

/** What can be asked of a node: the methods of {@link AdminService}, by their names. */
export const OPERATIONS: Readonly<Record<Exclude<keyof AdminService, 'close'>, Perform>> = {
  createKey: operation(
    z.object({ account, newAccount: z.boolean().optional(), name: z.string().optional() }),
    (service, input) => service.createKey(input),
  ),
  listKeys: operation(z.object({ account }), (service, input) => service.listKeys(input)),
  revokeKey: operation(z.object({ id: z.string() }), (service, input) => service.revokeKey(input)),
  createCell: operation(z.object({ account, name: z.string().optional() }), (service, input) =>
    service.createCell(input),
  ),
  listCells: operation(z.object({ account, cursor }), (service, input) => service.listCells(input)),
  deleteCell: operation(z.object({ cell }), (service, input) => service.deleteCell(input)),
  sql: operation(z.object({ cell, sql: z.string(), params: z.unknown().optional() }), (service, input) =>
    service.sql(input),
  ),
  backup: operation(
    z.object({ cell, kind: z.enum(['snapshot', 'incremental']) }),
    (service, input, transfer) => service.backup(input, transfer),
  ),
  restore: operation(z.object({ cell, version: z.string().optional() }), (service, input, transfer) =>
    service.restore(input, transfer),
  ),
  listBackups: operation(z.object({ cell, cursor }), (service, input) => service.listBackups(input)),
}

export function encodeError({ code, message, details }: CellError): AnswerLine {
  return { error: { code, message, details } }
}

/** An error that a node answered. Another version may know codes that this one does not. */
export function decodeError({
  code,
  message,
  details = {},
}: Extract<AnswerLine, { error: unknown }>['error']): CellError {
  const known = Object.hasOwn(ERROR_KINDS, code)
  return new CellError(known ? (code as CellErrorCode) : 'internal', message, details)
}

/** The lines of a stream of text. Only a line feed ends one: values may hold every other separator there is. */
export async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}
