import { useState } from 'preact/hooks'
import { Field } from '../../parts/field.tsx'
import { goTo } from '../../parts/router.ts'
import { useSession } from '../../parts/use-session.ts'

/** For a key that may not list cells: somebody has to know the id. */
export function OneCellPage() {
  const { may } = useSession()
  const [id, setId] = useState('')
  return (
    <main>
      <div class="head">
        <h1>Cells</h1>
      </div>
      <form
        class="narrow"
        onSubmit={(event) => {
          event.preventDefault()
          goTo('cells', id.trim(), may.sql ? 'sql' : 'kv')
        }}
      >
        <p>This key does not list cells: it is for {may.sql ? 'some cells' : 'key-value entries'} only.</p>
        <Field label="Id of the cell" value={id} onInput={setId} isCode isRequired />
        <button type="submit" class="primary" disabled={id.trim() === ''}>
          Open
        </button>
      </form>
    </main>
  )
}
