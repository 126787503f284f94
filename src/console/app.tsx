import { useEffect, useState } from 'preact/hooks'
import { CellPage } from './pages/cells/cell-page.tsx'
import { CellsPage } from './pages/cells/cells-page.tsx'
import { OneCellPage } from './pages/cells/one-cell-page.tsx'
import { AccountsPage } from './pages/keys/accounts-page.tsx'
import { KeysPage } from './pages/keys/keys-page.tsx'
import { NodePage } from './pages/node/node-page.tsx'
import { SignIn } from './pages/sign-in.tsx'
import { hrefTo, useRoute } from './parts/router.ts'
import { ThemeButton } from './parts/theme.tsx'
import { SessionContext, useChannel } from './parts/use-session.ts'
import type { Permissions } from './session/permissions.ts'
import type { Session } from './session/session.ts'

const PLACES: readonly (readonly [place: string, name: string, isShown: (may: Permissions) => boolean])[] = [
  ['cells', 'Cells', () => true],
  ['keys', 'Keys', (may) => may.account],
  ['accounts', 'Accounts', (may) => may.owner],
  ['node', 'Node', () => true],
]

/** The whole page: signed in, or not yet. */
export function App() {
  const [session, setSession] = useState<Session>()
  const [why, setWhy] = useState<string>()
  if (session === undefined) {
    return (
      <SignIn
        why={why}
        onOpen={(opened) => {
          setWhy(undefined)
          setSession(opened)
        }}
      />
    )
  }
  const close = (reason?: string) => {
    session.close()
    setSession(undefined)
    setWhy(reason)
  }
  return (
    <SessionContext.Provider value={session}>
      <Frame session={session} onClose={close} />
    </SessionContext.Provider>
  )
}

function Frame({ session, onClose }: { session: Session; onClose: (why?: string) => void }) {
  const route = useRoute()
  const [place = 'cells'] = route
  const ended = useChannel(session.ended)
  const isAway = useChannel(session.exchanges.away)
  useEffect(() => {
    if (ended !== undefined) onClose(ended)
  }, [ended])
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the page
      </button>
      <header class="bar">
        <a class="brand" href={hrefTo('cells')}>
          cellstore
        </a>
        <nav aria-label="Places">
          {PLACES.filter(([, , isShown]) => isShown(session.may)).map(([each, name]) => (
            <a key={each} href={hrefTo(each)} aria-current={each === place ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <span class="grow" />
        {!session.may.write && <span class="badge">reads only</span>}
        <ThemeButton />
        <button type="button" class="quiet" onClick={() => onClose()}>
          Sign out
        </button>
      </header>
      <div role="status" class="away-place">
        {isAway && <p class="away">The server does not answer. The page goes on when it is back.</p>}
      </div>
      <div id="main" class="page" tabIndex={-1}>
        <Place route={route} may={session.may} />
      </div>
    </>
  )
}

function Place({ route, may }: { route: readonly string[]; may: Permissions }) {
  const [place = 'cells', id, part] = route
  if (place === 'cells' && id !== undefined) return <CellPage key={id} id={id} part={part} />
  if (place === 'keys' && may.account) return <KeysPage />
  if (place === 'accounts' && may.owner) return <AccountsPage />
  if (place === 'node') return <NodePage />
  return may.account ? <CellsPage /> : <OneCellPage />
}
