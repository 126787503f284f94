import type { ComponentChildren } from 'preact'
import { isProblem } from '../../client/index.ts'
import { ServerAway } from '../session/exchanges.ts'

/** The sentence for people. */
function sentenceOf(error: unknown): string {
  return isProblem(error) || error instanceof ServerAway || error instanceof TypeError
    ? error.message
    : String(error)
}

/** An error: the server's own sentence, and what its log has it under. */
export function Failure({ error, children }: { error: unknown; children?: ComponentChildren }) {
  if (error === undefined) return null
  return (
    <div class="notice danger" role="alert">
      <p>{sentenceOf(error)}</p>
      {isProblem(error) && error.requestId !== '' && (
        <p class="small">
          <code>{error.code}</code> · request <code>{error.requestId}</code>
        </p>
      )}
      {children}
    </div>
  )
}

/** There is nothing here: what to do next. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  )
}
