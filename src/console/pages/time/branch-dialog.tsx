import { useState } from 'preact/hooks'
import { Dialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/field.tsx'
import { Progress } from '../../parts/progress.tsx'
import { goTo } from '../../parts/router.ts'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import type { Target } from './restoring.ts'

interface BranchDialogProps {
  id: string
  target: Target
  /** The moment or version, in words. */
  called: string
  suggested: string
  onClose: () => void
}

/** Makes a new cell with an earlier state; the old one stays as it is. */
export function BranchDialog({ id, target, called, suggested, onClose }: BranchDialogProps) {
  const { client } = useSession()
  const [name, setName] = useState(suggested)
  const branch = useWork(async (signal) => {
    const named = name === '' ? {} : { name }
    const made = await client.createCell({ from: { cell_id: id, ...target }, ...named }, { signal })
    goTo('cells', made.id, 'sql')
  })
  return (
    <Dialog
      title={`New cell with the state of ${called}`}
      action="Make the cell"
      isRunning={branch.isRunning}
      error={branch.error}
      onClose={onClose}
      onSubmit={() => void branch.run()}
    >
      <Field
        label="Name"
        value={name}
        onInput={setName}
        hint="Unique among your cells. It can be left out."
      />
      {branch.isRunning && <Progress label="Building and proving" />}
    </Dialog>
  )
}
