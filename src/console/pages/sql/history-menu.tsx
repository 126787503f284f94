import { useState } from 'preact/hooks'
import { Dialog } from '../../parts/dialog.tsx'
import { counted } from '../../parts/format.ts'
import { clearHistory, historyOf } from './history.ts'

/** What was run before in this cell, to be written into the editor again. */
export function HistoryMenu({ id, onPick }: { id: string; onPick: (sql: string) => void }) {
  const [isOpen, setOpen] = useState(false)
  const texts = isOpen ? historyOf(id) : []
  const close = () => setOpen(false)
  return (
    <>
      <button type="button" class="quiet" onClick={() => setOpen(true)}>
        History
      </button>
      {isOpen && (
        <Dialog title="History of this cell" isWide onClose={close}>
          {texts.length === 0 ? (
            <p class="muted">Nothing was run yet.</p>
          ) : (
            <>
              <ul class="history">
                {texts.map((text) => (
                  <li key={text}>
                    <button
                      type="button"
                      class="history-item code"
                      onClick={() => {
                        close()
                        onPick(text)
                      }}
                    >
                      {text}
                    </button>
                  </li>
                ))}
              </ul>
              <div class="fields">
                <span class="muted">{counted(texts.length, 'text')}, kept in this browser</span>
                <button
                  type="button"
                  class="quiet"
                  onClick={() => {
                    clearHistory(id)
                    close()
                  }}
                >
                  Clear
                </button>
              </div>
            </>
          )}
        </Dialog>
      )}
    </>
  )
}
