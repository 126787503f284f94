import { useState } from 'preact/hooks'
import type { Client } from '../../../client/index.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/field.tsx'
import { count, counted } from '../../parts/format.ts'
import { Progress } from '../../parts/progress.tsx'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'

/** Keys of one request: the most that the server takes. */
const AT_ONCE = 1_000

interface DeleteEntriesProps {
  id: string
  /** Which: those that were selected, or all with a prefix. */
  which: { keys: readonly string[] } | { prefix: string }
  onClose: () => void
  onDone: () => void
}

/** Deletes many entries, a thousand at a time. What is deleted when somebody cancels stays deleted. */
export function DeleteEntries({ id, which, onClose, onDone }: DeleteEntriesProps) {
  const { client } = useSession()
  const [deleted, setDeleted] = useState(0)
  const [typed, setTyped] = useState('')
  const isAll = 'prefix' in which
  const called = isAll ? (which.prefix === '' ? 'all' : which.prefix) : ''
  const work = useWork(async (signal) => {
    let sum = 0
    for await (const keys of isAll ? keysWith(client, id, which.prefix, signal) : piecesOf(which.keys)) {
      sum += (await client.kvDeleteMany({ id, keys }, { signal })).deleted
      setDeleted(sum)
    }
    onDone()
  })
  return (
    <Dialog
      title={
        isAll
          ? `Delete all entries ${which.prefix === '' ? 'of the cell' : `with ${which.prefix}`}`
          : `Delete ${counted(which.keys.length, 'entry', 'entries')}`
      }
      action="Delete"
      isDangerous
      isReady={typed === called}
      isRunning={work.isRunning}
      error={work.error}
      onClose={onClose}
      onSubmit={() => void work.run()}
    >
      {isAll ? (
        <Field
          label={which.prefix === '' ? 'Type the word all' : 'Type the prefix'}
          value={typed}
          onInput={setTyped}
          placeholder={called}
          isCode
        />
      ) : (
        <p>Nothing asks again. The Time page can bring the cell back to a moment before.</p>
      )}
      {work.isRunning && <Progress label={`${count(deleted)} deleted`} onCancel={work.cancel} />}
    </Dialog>
  )
}

/** What is deleted is gone from the list: it begins anew each time. */
async function* keysWith(client: Client, id: string, prefix: string, signal: AbortSignal) {
  for (;;) {
    const { entries } = await client.kvList({ id, prefix, limit: AT_ONCE }, { signal })
    if (entries.length === 0) return
    yield entries.map(({ key }) => key)
  }
}

async function* piecesOf(keys: readonly string[]) {
  for (let at = 0; at < keys.length; at += AT_ONCE) yield keys.slice(at, at + AT_ONCE)
}
