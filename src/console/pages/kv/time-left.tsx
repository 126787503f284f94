import { useEffect, useState } from 'preact/hooks'
import { span } from '../../parts/format.ts'
import { every, ticks } from '../../session/browser-clock.ts'

const SECOND_MS = 1_000

/**
 * Counts the time of an entry down.
 *
 * @param seconds what was left when it was read; -1: it does not expire
 * @param since when it was read, by this machine's own clock: the server's may differ
 */
export function TimeLeft({ seconds, since, onOver }: { seconds: number; since: number; onOver: () => void }) {
  const [now, setNow] = useState(ticks)
  const expires = seconds >= 0
  const left = seconds * SECOND_MS - (Math.max(now, since) - since)
  useEffect(() => (expires ? every(SECOND_MS, () => setNow(ticks())) : undefined), [expires])
  useEffect(() => {
    if (expires && left <= 0) onOver()
  }, [expires && left <= 0])
  if (!expires) return <span>does not expire</span>
  return (
    <span class="time-left">
      expires in {span(Math.max(SECOND_MS, Math.ceil(left / SECOND_MS) * SECOND_MS))}
    </span>
  )
}
