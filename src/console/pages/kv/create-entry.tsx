import { useState } from 'preact/hooks'
import { isProblem } from '../../../client/index.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/field.tsx'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'

interface CreateEntryProps {
  id: string
  prefix: string
  onClose: () => void
  onDone: (key: string) => void
}

/** Makes an entry; one that is there already stays as it is. */
export function CreateEntry({ id, prefix, onClose, onDone }: CreateEntryProps) {
  const { client } = useSession()
  const [key, setKey] = useState(prefix)
  const [value, setValue] = useState('')
  const [seconds, setSeconds] = useState('')
  const create = useWork(async (signal) => {
    const time = seconds.trim() === '' ? {} : { ttl_seconds: Number(seconds) }
    await client.kvMset({ id, entries: [{ key, value, if_version: null, ...time }] }, { signal })
    onDone(key)
  })
  const exists = isProblem(create.error, 'precondition_failed')
  return (
    <Dialog
      title="New entry"
      action="Create"
      isRunning={create.isRunning}
      isReady={key !== ''}
      error={exists ? undefined : create.error}
      onClose={onClose}
      onSubmit={() => void create.run()}
    >
      <Field
        label="Key"
        value={key}
        onInput={setKey}
        isCode
        fault={exists ? 'There is an entry with this key. Open it to change it.' : undefined}
        hint="Colons make groups: user:1:name."
      />
      <Field label="Value" value={value} onInput={setValue} isCode lines={6} />
      <Field
        label="Time to live, in seconds"
        value={seconds}
        onInput={setSeconds}
        type="number"
        min="1"
        hint="Leave it empty for an entry that does not expire."
      />
    </Dialog>
  )
}
