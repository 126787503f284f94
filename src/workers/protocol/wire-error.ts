import { isError } from '../../base/any-realm.ts'
import { CellError, type CellErrorCode, type CellErrorDetails, ERROR_KINDS } from '../../errors.ts'

/** An error in a message between processes. */
export interface WireError {
  /** Null for any other error than a `CellError`: that is a bug of cellstore. */
  code: CellErrorCode | null
  message: string
  details: Omit<CellErrorDetails, 'cause'>
  /** For the log only; tenants never see it. */
  stack: string | undefined
}

export function toWireError(error: unknown): WireError {
  if (error instanceof CellError) {
    const { code, message, details, stack } = error
    return { code, message, details, stack }
  }
  const { message, stack } = isError(error) ? error : new Error(String(error))
  return { code: null, message, details: {}, stack }
}

export function fromWireError({ code, message, details, stack }: WireError): Error {
  const error =
    code !== null && Object.hasOwn(ERROR_KINDS, code)
      ? new CellError(code, message, details)
      : new Error(message)
  if (stack !== undefined) error.stack = stack
  return error
}
