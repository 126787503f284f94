import { useState } from 'preact/hooks'
import { Dialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/field.tsx'
import { bytes } from '../../parts/format.ts'
import { Progress } from '../../parts/progress.tsx'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import type { NamedCell } from './cell-dialogs.tsx'

/** Makes a cell of a SQLite file. */
export function ImportCell(props: { file: File; onClose: () => void; onDone: (cell: NamedCell) => void }) {
  const { file, onClose, onDone } = props
  const { client } = useSession()
  const [name, setName] = useState(file.name.replace(/\.[^.]+$/, ''))
  const work = useWork(async (signal) =>
    onDone(await client.importCell({ file, ...(name === '' ? {} : { name }) }, { signal })),
  )
  return (
    <Dialog
      title={`Import ${file.name}`}
      action="Import"
      isRunning={work.isRunning}
      error={work.error}
      onClose={onClose}
      onSubmit={() => void work.run()}
    >
      <p>{bytes(file.size)}. The server checks the database and builds it anew; only then there is a cell.</p>
      <Field
        label="Name"
        value={name}
        onInput={setName}
        hint="Unique among your cells. It can be left out."
      />
      {work.isRunning && <Progress label="Sending and checking" onCancel={work.cancel} />}
    </Dialog>
  )
}
