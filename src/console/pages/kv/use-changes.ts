import { useEffect, useRef, useState } from 'preact/hooks'
import { type ChangeEvent, isProblem } from '../../../client/index.ts'
import { useSession } from '../../parts/use-session.ts'

/**
 * The commits of a cell as they come, while the tab is looked at: a browser has few connections to one server, and each
 * stream holds one.
 *
 * @returns whether they come
 */
export function useChanges(id: string, isWanted: boolean, onChange: (event: ChangeEvent) => void): boolean {
  const { client, ended } = useSession()
  const [isLive, setLive] = useState(false)
  const told = useRef(onChange)
  told.current = onChange
  useEffect(() => {
    if (!isWanted) return
    let ending: AbortController | undefined
    const watch = async (signal: AbortSignal) => {
      try {
        for await (const event of client.changes({ id }, { signal })) {
          setLive(true)
          told.current(event)
        }
      } catch (error) {
        if (isProblem(error, 'unauthorized') && !signal.aborted)
          ended.set(`The session has ended. ${error.message}`)
      } finally {
        setLive(false)
      }
    }
    const look = () => {
      if (document.visibilityState === 'hidden') ending?.abort()
      else if (ending === undefined || ending.signal.aborted) {
        ending = new AbortController()
        void watch(ending.signal)
      }
    }
    look()
    document.addEventListener('visibilitychange', look)
    return () => {
      document.removeEventListener('visibilitychange', look)
      ending?.abort()
    }
  }, [id, isWanted])
  return isLive
}
