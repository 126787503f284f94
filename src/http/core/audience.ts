import { hasEnded, type VerifiedApiKey } from '../../auth/api-key-records.ts'
import type { KeyScope } from '../../auth/key-scope.ts'
import type { Ownership } from '../../catalog/assignment/ownership.ts'
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

/** Whether the catalog has never had the key that a request names. */
export function isUnknownKey(request: HttpRequest, store: CellDirectory): boolean {
  return store.apiKeys.isUnknown(keyOf(request) ?? '')
}

function unauthorized(): CellError {
  return new CellError('unauthorized', 'A valid API key is needed, in the header x-api-key.')
}

/**
 * That a request's sender may make it. A body can take its time and an operation can wait, and meanwhile the key may expire
 * or be revoked, or its account be suspended: so it is asked again before anything is done.
 */
export class Permit {
  readonly #audience: Audience
  readonly #request: HttpRequest
  readonly #store: CellDirectory
  /** Undefined: no other node can have the cells. */
  readonly #ownership: Ownership | undefined
  /** Undefined: the owner of the store asks. */
  #key: Readonly<VerifiedApiKey> | undefined
  /** Of the keys that it was last checked against. */
  #version: number | undefined

  /** @throws `unauthorized`, `account_suspended` */
  constructor(audience: Audience, request: HttpRequest, store: CellDirectory, ownership?: Ownership) {
    this.#ownership = ownership
    this.#audience = audience
    this.#request = request
    this.#store = store
    this.#key = audience.identify(request, store)
    this.#version = store.apiKeys.version
  }

  /** Undefined: the owner of the store asks. */
  get accountId(): string | undefined {
    return this.#key?.accountId
  }

  get endsAt(): number | null | undefined {
    return this.#key?.endsAt
  }

  /** Undefined: the owner of the store asks, who may do everything. */
  get scope(): KeyScope | undefined {
    return this.#key?.scope
  }

  scopeToGive(rotatedId?: string): KeyScope | undefined {
    if (this.#key === undefined) return undefined
    const { keyId, scope, endsAt } = this.#key
    return keyId === rotatedId ? scope : { ...scope, expiresAt: endsAt }
  }

  /** Costs nothing while nothing has changed. @throws `unauthorized` if the key is no longer valid; `account_suspended`; `not_serving` */
  check(): void {
    this.#ownership?.assertMayAnswer()
    const { version } = this.#store.apiKeys
    const isSame = version === this.#version && version !== undefined
    if (isSame && (this.#key === undefined || !hasEnded(this.#key, this.#store.clock))) return
    this.#key = this.#audience.identify(this.#request, this.#store)
    this.#version = version
  }
}
