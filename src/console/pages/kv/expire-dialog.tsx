import { useState } from 'preact/hooks'
import { Dialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/field.tsx'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'

/** Sets or removes the time to live of an entry. */
export function ExpireDialog(props: {
  id: string
  entryKey: string
  onClose: () => void
  onDone: () => void
}) {
  const { id, entryKey, onClose, onDone } = props
  const { client } = useSession()
  const [seconds, setSeconds] = useState('')
  const expire = useWork(async (signal) => {
    const ttl_seconds = seconds.trim() === '' ? null : Number(seconds)
    await client.kvExpire({ id, key: entryKey, ttl_seconds }, { signal })
    onDone()
  })
  return (
    <Dialog
      title={`Time to live of ${entryKey}`}
      action="Set"
      isRunning={expire.isRunning}
      error={expire.error}
      onClose={onClose}
      onSubmit={() => void expire.run()}
    >
      <Field
        label="Seconds from now"
        value={seconds}
        onInput={setSeconds}
        type="number"
        min="1"
        hint="Leave it empty for an entry that does not expire."
      />
    </Dialog>
  )
}
