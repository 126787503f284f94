import { useState } from 'preact/hooks'
import type { AnswerOf, operations } from '../../../client/index.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/field.tsx'
import { bytes, count } from '../../parts/format.ts'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'

export type Account = AnswerOf<operations['listAccounts']>['accounts'][number]

const QUOTAS = [
  ['cells_max', 'Cells'],
  ['api_keys_max', 'Keys'],
  ['bytes_max', 'Bytes stored'],
  ['requests_per_second', 'Requests a second'],
] as const
type Quotas = Account['quotas']

/** What an account may have, in place of what the server says. */
export function QuotasDialog(props: { account: Account; onClose: () => void; onDone: () => void }) {
  const { account, onClose, onDone } = props
  const { client } = useSession()
  const [texts, setTexts] = useState<Record<string, string>>(
    Object.fromEntries(QUOTAS.map(([field]) => [field, String(account.quotas[field] ?? '')])),
  )
  const set = useWork(async (signal) => {
    const numbers = QUOTAS.map(([field]) => [field, texts[field] === '' ? null : Number(texts[field])])
    await client.setAccountQuotas({ account_id: account.id, ...Object.fromEntries(numbers) }, { signal })
    onDone()
  })
  return (
    <Dialog
      title={`Quotas of ${account.name ?? account.id}`}
      action="Set"
      isRunning={set.isRunning}
      error={set.error}
      onClose={onClose}
      onSubmit={() => void set.run()}
    >
      {QUOTAS.map(([field, name]) => (
        <Field
          key={field}
          label={name}
          type="number"
          min="1"
          value={texts[field] ?? ''}
          onInput={(text) => setTexts((last) => ({ ...last, [field]: text }))}
          placeholder="the server's"
        />
      ))}
    </Dialog>
  )
}

export function quotasInWords(quotas: Quotas): string {
  const set = QUOTAS.flatMap(([field, name]) => {
    const value = quotas[field]
    if (value == null) return []
    return `${name.toLowerCase()} ${field === 'bytes_max' ? bytes(value) : count(value)}`
  })
  return set.length === 0 ? "the server's" : set.join(', ')
}
