import { useState } from 'preact/hooks'
import { Dialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/field.tsx'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'

export interface NamedCell {
  id: string
  name: string | null
}

export function CreateCell({ onClose, onDone }: { onClose: () => void; onDone: (cell: NamedCell) => void }) {
  const { client } = useSession()
  const [name, setName] = useState('')
  const create = useWork(async (signal) =>
    onDone(await client.createCell(name === '' ? {} : { name }, { signal })),
  )
  return (
    <Dialog
      title="New cell"
      action="Create"
      isRunning={create.isRunning}
      error={create.error}
      onClose={onClose}
      onSubmit={() => void create.run()}
    >
      <Field
        label="Name"
        value={name}
        onInput={setName}
        hint="Unique among your cells. It can be left out, and changed later."
      />
    </Dialog>
  )
}

interface CellDialogProps {
  cell: NamedCell
  onClose: () => void
  onDone: () => void
}

export function RenameCell({ cell, onClose, onDone }: CellDialogProps) {
  const { client } = useSession()
  const [name, setName] = useState(cell.name ?? '')
  const rename = useWork(async (signal) => {
    await client.renameCell({ id: cell.id, name: name === '' ? null : name }, { signal })
    onDone()
  })
  return (
    <Dialog
      title={`Rename ${cell.name ?? cell.id}`}
      action="Rename"
      isRunning={rename.isRunning}
      error={rename.error}
      onClose={onClose}
      onSubmit={() => void rename.run()}
    >
      <Field label="Name" value={name} onInput={setName} hint="An empty name removes it." />
    </Dialog>
  )
}

export function DeleteCell({ cell, onClose, onDone }: CellDialogProps) {
  const { client } = useSession()
  const [typed, setTyped] = useState('')
  const called = cell.name ?? cell.id
  const remove = useWork(async (signal) => {
    await client.deleteCell({ id: cell.id }, { signal })
    onDone()
  })
  return (
    <Dialog
      title={`Delete ${called}`}
      action="Delete"
      isDangerous
      isReady={typed === called}
      isRunning={remove.isRunning}
      error={remove.error}
      onClose={onClose}
      onSubmit={() => void remove.run()}
    >
      <p>Its last state is stored first, and its backups stay: the list of deleted cells brings it back.</p>
      <Field
        label={cell.name === null ? 'Type its id' : 'Type its name'}
        value={typed}
        onInput={setTyped}
        placeholder={called}
        isCode
      />
    </Dialog>
  )
}
