import { hasEnded, type VerifiedApiKey } from '../../auth/api-key-records.ts'
import type { KeyScope } from '../../auth/key-scope.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import type { Audience } from './audience.ts'
import type { HttpRequest } from './http-message.ts'

/**
 * That a request's sender may make it. A body can take its time and an operation can wait, and meanwhile the key may expire
 * or be revoked, or its account be suspended: so it is asked again before anything is done.
 */
export class Permit {
  readonly #audience: Audience
  readonly #request: HttpRequest
  readonly #store: CellDirectory
  /** Undefined: the owner of the store asks. */
  #key: Readonly<VerifiedApiKey> | undefined
  /** Of the keys that it was last checked against. */
  #version: number | undefined

  /** @throws `unauthorized`, `account_suspended` */
  constructor(audience: Audience, request: HttpRequest, store: CellDirectory) {
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

  /** Costs nothing while nothing has changed. @throws `unauthorized` if the key is no longer valid; `account_suspended` */
  check(): void {
    const { version } = this.#store.apiKeys
    const isSame = version === this.#version && version !== undefined
    if (isSame && (this.#key === undefined || !hasEnded(this.#key, this.#store.clock))) return
    this.#key = this.#audience.identify(this.#request, this.#store)
    this.#version = version
  }
}
