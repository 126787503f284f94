import { useEffect, useState } from 'preact/hooks'
import { Failure } from '../parts/failure.tsx'
import { Field, Tick } from '../parts/field.tsx'
import { Session } from '../session/session.ts'

/** Asks for a key. @param why the last session ended */
export function SignIn({ why, onOpen }: { why: string | undefined; onOpen: (session: Session) => void }) {
  const [key, setKey] = useState('')
  const [keep, setKeep] = useState(false)
  const [error, setError] = useState<unknown>()
  const [isRunning, setRunning] = useState(false)
  const open = async (text: string, keepIt: boolean) => {
    setRunning(true)
    setError(undefined)
    try {
      onOpen(await Session.open(text.trim(), keepIt))
    } catch (failure) {
      setError(failure)
      setRunning(false)
    }
  }
  useEffect(() => {
    const kept = Session.keptKey()
    if (kept !== undefined && why === undefined) void open(kept, true)
  }, [])
  return (
    <main class="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void open(key, keep)
        }}
      >
        <h1>cellstore</h1>
        {why !== undefined && (
          <div class="notice" role="alert">
            <p>{why}</p>
          </div>
        )}
        <Field
          label="API key"
          type="password"
          value={key}
          onInput={setKey}
          placeholder="cell_sk_…"
          isRequired
          isCode
          hint="The first start of cellstore serve prints one. It stays in this page, and goes to this server alone."
        />
        <Tick label="Keep it for this tab, also after a reload" isOn={keep} onChange={setKeep} />
        <Failure error={error} />
        <button type="submit" class="primary" disabled={isRunning || key.trim() === ''}>
          {isRunning ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
    </main>
  )
}
