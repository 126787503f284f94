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
  const [value, setValue] = useState(channel.value)
  useEffect(() => {
    // It may have changed since it was drawn: this comes later.
    setValue(() => channel.value)
    return channel.listen(() => setValue(() => channel.value))
  }, [channel])
  return value
}
