import type { CellDirectory } from '../store/cell-directory.ts'
import type { Audience } from './audience.ts'
import type { HttpRequest } from './http-message.ts'

/**
 * That a request's sender may make it. A body can take its time and an operation can wait, and the key may be revoked
 * meanwhile: so it is asked again before anything is done.
 */
export class Permit {
  readonly accountId: string | undefined
  readonly #audience: Audience
  readonly #request: HttpRequest
  readonly #store: CellDirectory
  /** Of the keys that it was last checked against. */
  #version: number | undefined

  /** @throws `unauthorized` */
  constructor(audience: Audience, request: HttpRequest, store: CellDirectory) {
    this.#audience = audience
    this.#request = request
    this.#store = store
    this.accountId = audience.identify(request, store)
    this.#version = store.apiKeys.version
  }

  /** Costs nothing while nothing has changed. @throws `unauthorized` if the key is no longer valid */
  check(): void {
    const { version } = this.#store.apiKeys
    if (version === this.#version && version !== undefined) return
    this.#audience.identify(this.#request, this.#store)
    this.#version = version
  }
}
