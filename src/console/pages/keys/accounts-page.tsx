import { useState } from 'preact/hooks'
import type { Client } from '../../../client/index.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { Failure } from '../../parts/failure.tsx'
import { Field } from '../../parts/field.tsx'
import { age, count } from '../../parts/format.ts'
import { PagedTable } from '../../parts/paged-table.tsx'
import { useLoad, useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import { CreateKey, NewKey } from './key-dialogs.tsx'
import { type Account, QuotasDialog, quotasInWords } from './quotas-dialog.tsx'

type Asked =
  | { kind: 'create' }
  | { kind: 'key' | 'quotas'; account: Account }
  | { kind: 'new'; value: string }

/** All accounts of the store, for its owner. */
export function AccountsPage() {
  const { client } = useSession()
  const [asked, setAsked] = useState<Asked>()
  const accounts = useLoad((signal) => loadAccounts(client, signal), [])
  const close = () => setAsked(undefined)
  const done = () => {
    close()
    accounts.reload()
  }
  const toggle = useWork(async (signal, { id, suspended_at }: Account) => {
    if (suspended_at === null) await client.suspendAccount({ account_id: id }, { signal })
    else await client.resumeAccount({ account_id: id }, { signal })
    accounts.reload()
  })
  return (
    <main>
      <div class="head">
        <h1>Accounts</h1>
        <span class="muted">{accounts.data !== undefined && count(accounts.data.length)}</span>
        <span class="grow" />
        <button type="button" class="primary" onClick={() => setAsked({ kind: 'create' })}>
          New account
        </button>
      </div>
      <Failure error={accounts.error ?? toggle.error} />
      {accounts.data !== undefined && (
        <PagedTable
          label="Accounts"
          rows={accounts.data}
          keyOf={({ id }) => id}
          columns={[
            {
              name: 'Name',
              by: ({ name }) => name ?? '',
              cell: ({ name }) => name ?? <span class="muted">no name</span>,
            },
            { name: 'Id', by: ({ id }) => id, cell: ({ id }) => <code class="id">{id}</code> },
            { name: 'Created', by: (each) => each.created_at, cell: (each) => age(each.created_at) },
            {
              name: 'State',
              cell: ({ suspended_at }) =>
                suspended_at === null ? (
                  <span class="badge good">active</span>
                ) : (
                  <span class="badge bad">suspended</span>
                ),
            },
            { name: 'Quotas', cell: ({ quotas }) => quotasInWords(quotas) },
            {
              name: 'Actions',
              isQuiet: true,
              cell: (account) => (
                <span class="row-buttons">
                  <AccountButton
                    account={account}
                    name="New key"
                    onClick={() => setAsked({ kind: 'key', account })}
                  />
                  <AccountButton
                    account={account}
                    name="Quotas"
                    onClick={() => setAsked({ kind: 'quotas', account })}
                  />
                  <AccountButton
                    account={account}
                    name={account.suspended_at === null ? 'Suspend' : 'Resume'}
                    onClick={() => void toggle.run(account)}
                  />
                </span>
              ),
            },
          ]}
        />
      )}
      {asked?.kind === 'create' && <CreateAccount onClose={close} onDone={done} />}
      {asked?.kind === 'quotas' && <QuotasDialog account={asked.account} onClose={close} onDone={done} />}
      {asked?.kind === 'key' && (
        <CreateKey
          accountId={asked.account.id}
          onClose={close}
          onDone={(value) => setAsked({ kind: 'new', value })}
        />
      )}
      {asked?.kind === 'new' && <NewKey value={asked.value} onClose={close} />}
    </main>
  )
}

function AccountButton({ account, name, onClick }: { account: Account; name: string; onClick: () => void }) {
  return (
    <button
      type="button"
      class="quiet"
      aria-label={`${name}: ${account.name ?? account.id}`}
      onClick={onClick}
    >
      {name}
    </button>
  )
}

function CreateAccount({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const { client } = useSession()
  const [name, setName] = useState('')
  const create = useWork(async (signal) => {
    await client.createAccount(name === '' ? {} : { name }, { signal })
    onDone()
  })
  return (
    <Dialog
      title="New account"
      action="Create"
      isRunning={create.isRunning}
      error={create.error}
      onClose={onClose}
      onSubmit={() => void create.run()}
    >
      <Field label="Name" value={name} onInput={setName} hint="It can be left out." />
    </Dialog>
  )
}

async function loadAccounts(client: Client, signal: AbortSignal): Promise<Account[]> {
  const accounts: Account[] = []
  let cursor: string | undefined
  do {
    const page = await client.listAccounts(
      { limit: 1_000, ...(cursor === undefined ? {} : { cursor }) },
      { signal },
    )
    accounts.push(...page.accounts)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  return accounts
}
