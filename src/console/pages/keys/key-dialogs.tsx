import { useState } from 'preact/hooks'
import type { AnswerOf, BodyOf, operations } from '../../../client/index.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Choice, Field } from '../../parts/field.tsx'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'

export type Key = AnswerOf<operations['listApiKeys']>[number]
type KeyBody = BodyOf<operations['createApiKey']>
type Access = NonNullable<KeyBody['access']>
type Surface = NonNullable<KeyBody['surface']>

const HOUR_MS = 3_600_000

/** Shows a new key, once: the server has only its hash. */
export function NewKey({ value, onClose }: { value: string; onClose: () => void }) {
  return (
    <Dialog title="The new key" onClose={onClose}>
      <p>This is the only time that it is shown. The server keeps a hash of it.</p>
      <code class="secret" data-testid="new-key">
        {value}
      </code>
      <CopyButton label="Copy the key" text={() => value} isPrimary />
    </Dialog>
  )
}

/** Makes a key: of the own account, or of another one. */
export function CreateKey(props: { accountId?: string; onClose: () => void; onDone: (key: string) => void }) {
  const { accountId, onClose, onDone } = props
  const { client, may } = useSession()
  const [name, setName] = useState('')
  const [access, setAccess] = useState<Access>('write')
  const [surface, setSurface] = useState<Surface>('all')
  const [cells, setCells] = useState('')
  const [expires, setExpires] = useState('')
  const isOwner = access === 'owner'
  const create = useWork(async (signal) => {
    const ids = cells.split(/[\s,]+/).filter((id) => id !== '')
    const body: KeyBody = {
      access,
      ...(name === '' ? {} : { name }),
      ...(isOwner ? {} : { surface }),
      ...(isOwner || ids.length === 0 ? {} : { cell_ids: ids }),
      ...(expires === '' ? {} : { expires_at: new Date(expires).toISOString() }),
    }
    const made =
      accountId === undefined
        ? await client.createApiKey(body, { signal })
        : await client.createApiKeyOfAccount({ account_id: accountId, ...body }, { signal })
    onDone(made.key)
  })
  return (
    <Dialog
      title="New key"
      action="Create"
      isRunning={create.isRunning}
      error={create.error}
      onClose={onClose}
      onSubmit={() => void create.run()}
    >
      <Field label="Name" value={name} onInput={setName} hint="What it is for. It can be left out." />
      <Choice
        label="Access"
        value={access}
        onChange={setAccess}
        options={[
          ['write', 'Reads and writes'],
          ['read', 'Only reads'],
          ...(may.owner ? [['owner', 'Owner: also accounts'] as const] : []),
        ]}
      />
      {!isOwner && (
        <>
          <Choice
            label="For"
            value={surface}
            onChange={setSurface}
            options={[
              ['all', 'SQL, entries, backups'],
              ['kv', 'Key-value entries only'],
            ]}
          />
          <Field
            label="Cells"
            value={cells}
            onInput={setCells}
            isCode
            lines={2}
            hint="Ids, up to 100. Leave it empty for all cells of the account."
          />
        </>
      )}
      <Field
        label="Expires"
        type="datetime-local"
        value={expires}
        onInput={setExpires}
        hint="Leave it empty for a key that does not expire."
      />
    </Dialog>
  )
}

interface KeyDialogProps {
  of: Key
  onClose: () => void
}

/** Makes another key with the same scope; the old one ends after a grace. */
export function RotateKey({ of: key, onClose, onDone }: KeyDialogProps & { onDone: (key: string) => void }) {
  const { client } = useSession()
  const [hours, setHours] = useState('24')
  const rotate = useWork(async (signal) => {
    const grace_ms = Math.round(Number(hours) * HOUR_MS)
    onDone((await client.rotateApiKey({ key_id: key.id, grace_ms }, { signal })).key)
  })
  return (
    <Dialog
      title={`Rotate ${key.name ?? key.hint}`}
      action="Rotate"
      isRunning={rotate.isRunning}
      error={rotate.error}
      onClose={onClose}
      onSubmit={() => void rotate.run()}
    >
      <p>A new key with the same name and scope takes its place.</p>
      <Field
        label="Hours for which the old key still works"
        type="number"
        min="0"
        max="720"
        value={hours}
        onInput={setHours}
        hint="0 if somebody else may have it."
      />
    </Dialog>
  )
}

export function RevokeKey({ of: key, onClose, onDone }: KeyDialogProps & { onDone: () => void }) {
  const { client, hint } = useSession()
  const revoke = useWork(async (signal) => {
    await client.revokeApiKey({ key_id: key.id }, { signal })
    onDone()
  })
  return (
    <Dialog
      title={`Revoke ${key.name ?? key.hint}`}
      action="Revoke"
      isDangerous
      isRunning={revoke.isRunning}
      error={revoke.error}
      onClose={onClose}
      onSubmit={() => void revoke.run()}
    >
      <p data-first tabIndex={-1}>
        The next request with it is refused. This cannot be undone.
        {key.hint === hint && <b> You have signed in with this key.</b>}
      </p>
    </Dialog>
  )
}
