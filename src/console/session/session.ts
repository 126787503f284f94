import { type Client, createClient } from '../../client/index.ts'
import { Channel } from './channel.ts'
import { Exchanges } from './exchanges.ts'
import { askPermissions, type Permissions } from './permissions.ts'

/** Where a key is kept that shall outlive a reload of this tab. */
const KEPT_KEY = 'cellstore-key'
const HINT_LENGTH = 12

/** The server is where the page came from; it may be below a path of a proxy. */
const BASE_URL = new URL('.', document.baseURI).href.replace(/\/$/, '')

/** A restore that can be undone. */
export interface Undo {
  /** The moment to which the cell goes back. */
  to: string
  /** What the restore brought. */
  from: string | null
}

/** Somebody has signed in with a key. It is in memory alone, unless they asked to keep it for the tab. */
export class Session {
  readonly client: Client
  readonly may: Permissions
  readonly exchanges: Exchanges
  /** The first characters of the key: lists of keys show them. */
  readonly hint: string
  /** Why it ended; undefined while it lasts. */
  readonly ended: Channel<string | undefined>
  /** By the id of the cell. */
  readonly undos = new Map<string, Undo>()

  private constructor(parts: Pick<Session, 'client' | 'may' | 'exchanges' | 'hint' | 'ended'>) {
    this.client = parts.client
    this.may = parts.may
    this.exchanges = parts.exchanges
    this.hint = parts.hint
    this.ended = parts.ended
  }

  /** @throws `ProblemError`, `ServerAway` */
  static async open(key: string, keep: boolean): Promise<Session> {
    const ended = new Channel<string | undefined>(undefined)
    const exchanges = new Exchanges(BASE_URL, (code, detail) => {
      const why = code === 'account_suspended' ? 'the account is suspended' : 'the server refuses the key'
      ended.set(`The session has ended: ${why}. ${detail}`)
    })
    const client = createClient({ baseUrl: BASE_URL, apiKey: key, fetch: exchanges.fetch })
    try {
      const may = await askPermissions(client)
      if (keep) sessionStorage.setItem(KEPT_KEY, key)
      return new Session({ client, may, exchanges, hint: key.slice(0, HINT_LENGTH), ended })
    } catch (error) {
      exchanges.close()
      throw error
    }
  }

  /** The key that was kept for this tab. */
  static keptKey(): string | undefined {
    return sessionStorage.getItem(KEPT_KEY) ?? undefined
  }

  /** Forgets the key. */
  close(): void {
    sessionStorage.removeItem(KEPT_KEY)
    this.exchanges.close()
  }
}
