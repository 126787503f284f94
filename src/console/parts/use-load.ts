import { useEffect, useRef, useState } from 'preact/hooks'
import { useChannel, useSession } from './use-session.ts'

/** What is loaded for a part of the page. */
export interface Loaded<T> {
  /** What came last; it stays while newer data is loaded, so that nothing jumps. */
  data: T | undefined
  error: unknown
  isLoading: boolean
  reload(): void
}

/**
 * Loads something, and again when an input changes, or when the server is back.
 *
 * @param inputs other ones are other data: what was loaded before is dropped
 */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const { exchanges } = useSession()
  const isAway = useChannel(exchanges.away)
  const [state, setState] = useState<{
    data: T | undefined
    error: unknown
    isLoading: boolean
    of: unknown
  }>({
    data: undefined,
    error: undefined,
    isLoading: true,
    of: undefined,
  })
  const [round, setRound] = useState(0)
  const wasAway = useRef(false)
  const of = JSON.stringify(inputs)
  if (wasAway.current && !isAway) setRound(round + 1)
  wasAway.current = isAway
  useEffect(() => {
    const ending = new AbortController()
    setState((last) => ({
      ...last,
      isLoading: true,
      ...(last.of === of ? {} : { data: undefined, error: undefined }),
      of,
    }))
    load(ending.signal).then(
      (data) => {
        if (!ending.signal.aborted) setState({ data, error: undefined, isLoading: false, of })
      },
      (error: unknown) => {
        if (!ending.signal.aborted) setState((last) => ({ ...last, error, isLoading: false }))
      },
    )
    return () => ending.abort()
    // What it loads is said by its inputs.
  }, [of, round])
  const isCurrent = state.of === of
  return {
    data: isCurrent ? state.data : undefined,
    error: isCurrent ? state.error : undefined,
    isLoading: isCurrent ? state.isLoading : true,
    reload: () => setRound((last) => last + 1),
  }
}

/** Work that somebody has begun with a button. */
export interface Work<A extends unknown[]> {
  isRunning: boolean
  error: unknown
  /** Resolves to whether it succeeded. */
  run(...args: A): Promise<boolean>
  cancel(): void
  forget(): void
}

/** Runs one piece of work at a time; it is cancelled when its part of the page goes. */
export function useWork<A extends unknown[]>(
  work: (signal: AbortSignal, ...args: A) => Promise<void>,
): Work<A> {
  const [state, setState] = useState<{ isRunning: boolean; error: unknown }>({
    isRunning: false,
    error: undefined,
  })
  const ending = useRef<AbortController | undefined>(undefined)
  useEffect(() => () => ending.current?.abort(), [])
  return {
    ...state,
    cancel: () => ending.current?.abort(),
    forget: () => setState((last) => ({ ...last, error: undefined })),
    async run(...args) {
      if (ending.current !== undefined) return false
      const own = new AbortController()
      ending.current = own
      setState({ isRunning: true, error: undefined })
      try {
        await work(own.signal, ...args)
        setState({ isRunning: false, error: undefined })
        return true
      } catch (error) {
        setState({ isRunning: false, error: own.signal.aborted ? undefined : error })
        return false
      } finally {
        ending.current = undefined
      }
    },
  }
}
