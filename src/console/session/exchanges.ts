import { every, now, ticks } from './browser-clock.ts'
import { Channel } from './channel.ts'

/** A request of this page, and how it went. */
export interface Exchange {
  at: number
  method: string
  path: string
  /** Null: no answer came. */
  status: number | null
  /** Until the head of the answer. */
  ms: number
  requestId: string | null
}

/** How many the page remembers. */
const KEPT = 300
const RETRY_MS = 1_500

/** The server gave no answer. As what `fetch` throws, so that a stream of changes is asked for again. */
export class ServerAway extends TypeError {
  constructor(cause: unknown) {
    super('The server does not answer.', { cause })
  }
}

/** Sends the requests of the page: notes how each went, and whether the server answers at all. */
export class Exchanges {
  /** The newest last. */
  readonly recent = new Channel<readonly Exchange[]>([])
  /** True from a request without an answer until the server answers again. */
  readonly away = new Channel(false)
  readonly #baseUrl: string
  readonly #onRefused: (code: string, detail: string) => void
  #stopLooking: (() => void) | undefined

  /** @param onRefused hears of an answer that ends the session: the key, or its account, is no longer good */
  constructor(baseUrl: string, onRefused: (code: string, detail: string) => void) {
    this.#baseUrl = baseUrl
    this.#onRefused = onRefused
  }

  readonly fetch = async (url: string, init: RequestInit) => {
    const at = now()
    const began = ticks()
    const note = (status: number | null, requestId: string | null) => {
      const path = url.slice(this.#baseUrl.length)
      const exchange = { at, method: init.method ?? 'GET', path, status, ms: ticks() - began, requestId }
      this.recent.set([...this.recent.value, exchange].slice(-KEPT))
    }
    try {
      const response = await fetch(url, {
        ...init,
        redirect: 'error',
        credentials: 'omit',
        cache: 'no-store',
      })
      note(response.status, response.headers.get('x-request-id'))
      this.#setAway(false)
      if (response.status === 401 || response.status === 403) await this.#look(response.clone().json())
      return response
    } catch (error) {
      if (init.signal?.aborted) throw error
      note(null, null)
      this.#setAway(true)
      throw new ServerAway(error)
    }
  }

  /** Ends what it does on its own. */
  close(): void {
    this.#stopLooking?.()
    this.#stopLooking = undefined
  }

  async #look(problem: Promise<{ code?: string; detail?: string }>): Promise<void> {
    const { code = '', detail = '' } = await problem.catch(() => ({ code: '', detail: '' }))
    if (code === 'unauthorized' || code === 'account_suspended') this.#onRefused(code, detail)
  }

  #setAway(isAway: boolean): void {
    this.away.set(isAway)
    if (!isAway) this.close()
    else this.#stopLooking ??= every(RETRY_MS, () => void this.#knock())
  }

  async #knock(): Promise<void> {
    const answer = await fetch(`${this.#baseUrl}/readyz`, { cache: 'no-store' }).catch(() => undefined)
    if (answer?.ok) this.#setAway(false)
  }
}
