import { createContext } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'
import type { Channel } from '../session/channel.ts'
import type { Session } from '../session/session.ts'

export const SessionContext = createContext<Session | undefined>(undefined)

/** The session that all of the page is in. */
export function useSession(): Session {
  return useContext(SessionContext) as Session
}

/** Its value now; the component is drawn again when it changes. */
export function useChannel<T>(channel: Channel<T>): T {
  const [, draw] = useState({})
  useEffect(() => channel.listen(() => draw({})), [channel])
  return channel.value
}
