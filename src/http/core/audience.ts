import type { VerifiedApiKey } from '../../auth/api-key-records.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import type { HttpLimits } from '../handler-options.ts'
import { ROUTES, type Route } from '../routes/routes.ts'
import type { HttpRequest } from './http-message.ts'
import { asTenantsSee } from './problem.ts'

/** Whom an application serves, and what they may do and see. */
export interface Audience {
  readonly routes: readonly Route[]
  /** The key that asks; undefined for the owner of the store. @throws `unauthorized`, `account_suspended` */
  identify(request: HttpRequest, store: CellDirectory): Readonly<VerifiedApiKey> | undefined
  /** What of an error they may see. */
  show(error: unknown): CellError
  /** Where these are not the default ones. */
  readonly limits?: Partial<HttpLimits>
  /** Whether a request that takes long is answered `102 Processing` meanwhile. */
  readonly sendsProgress: boolean
}

/** The holders of API keys. */
export const TENANTS: Audience = {
  routes: ROUTES,
  identify: verifiedKey,
  show: asTenantsSee,
  sendsProgress: false,
}

const BEARER = /^Bearer +([^ ]+) *$/i

/** Every bad key gets the same answer, which does not say what was wrong with it. */
function verifiedKey(request: HttpRequest, store: CellDirectory): Readonly<VerifiedApiKey> {
  try {
    return store.apiKeys.verify(keyOf(request) ?? '')
  } catch (error) {
    throw isCellError(error, 'unauthorized') ? unauthorized() : error
  }
}

function keyOf(request: HttpRequest): string | undefined {
  return request.header('x-api-key') ?? BEARER.exec(request.header('authorization') ?? '')?.[1]
}

function unauthorized(): CellError {
  return new CellError('unauthorized', 'A valid API key is needed, in the header x-api-key.')
}
