import path from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { S3ObjectStore } from '../../src/backup/object-store/s3/s3-object-store.ts'
import { isCellError } from '../../src/errors.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { temporaryStore } from '../../src/testing/index.ts'
import { ScratchPlace } from '../support/backup/scratch-store.ts'
import {
  type PublicOption,
  type PublicOptions,
  publicOptions,
  refusedLines,
} from '../support/package/public-options.ts'
import { tempDirectory } from '../support/temp-directory.ts'

interface Under {
  store: CellStore
  cell: Cell
  account: string
  keyId: string
  version: string
  /** The directory of another store, which is closed. */
  closed: string
}

type Call = (options: never, under: Under) => unknown

const into = async (make: (directory: string) => Promise<CellStore>) => {
  const store = await make(path.join(tempDirectory(), 'data'))
  await store.close()
}

/** How each function is called with options, by its name and theirs. A function without a call here fails the test. */
const CALLS: Record<string, Call> = {
  'Accounts.create(options)': (options, { store }) => store.accounts.create(options),
  'Accounts.page(AccountListOptions)': (options, { store }) => store.accounts.page(options),
  'Accounts.setQuotas(QuotaOverrides)': (options, { store, account }) =>
    store.accounts.setQuotas(account, options),
  'ApiKeys.create(CreateApiKeyOptions)': (options, { store, account }) =>
    store.apiKeys.create(account, options),
  'ApiKeys.page(ApiKeyListOptions)': (options, { store, account }) => store.apiKeys.page(account, options),
  'ApiKeys.rotate(RotateApiKeyOptions)': (options, { store, account, keyId }) =>
    store.apiKeys.rotate(account, keyId, options),
  'BackupManager.flush(CallOptions)': (options, { store }) => store.backups.flush(options),
  'BackupManager.incremental(MakeBackupOptions)': (options, { store, cell }) =>
    store.backups.incremental(cell.id, options),
  'BackupManager.list(BackupListOptions)': (options, { store, cell }) => store.backups.list(cell.id, options),
  'BackupManager.plan(PlanOptions)': (options, { store, cell }) => store.backups.plan(cell.id, options),
  'BackupManager.restore(RestoreOptions)': (options, { store, cell }) =>
    store.backups.restore(cell.id, options),
  'BackupManager.snapshot(MakeBackupOptions)': (options, { store, cell }) =>
    store.backups.snapshot(cell.id, options),
  'BackupManager.verify(VerifyOptions)': (options, { store, cell }) => store.backups.verify(cell.id, options),
  'Cell.exec(ExecOptions)': (options, { cell }) => cell.exec('INSERT INTO t VALUES (1)', options),
  'Cell.export(ExportOptions)': (options, { cell }) =>
    cell.export(path.join(tempDirectory(), 'x.db'), options),
  'Cell.get(RowOptions)': (options, { cell }) =>
    cell.get('INSERT INTO t VALUES (1) RETURNING a', [], options),
  'Cell.prepare(PrepareOptions)': (options, { cell }) => cell.prepare('SELECT 1', options).all(),
  'Cell.replicated(CallOptions)': (options, { cell }) => cell.replicated(options),
  'Cell.sql(SqlOptions)': (options, { cell }) => cell.sql('INSERT INTO t VALUES (1)', [], options),
  'Cell.watch(WatchOptions)': (options, { cell }) => cell.watch(options)[Symbol.asyncIterator]().return?.(),
  'CellStore.cell(NamedCellOptions)': (options, { store }) => store.cell('named', options),
  'CellStore.cells(CellListOptions)': (options, { store }) => store.cells(options),
  'CellStore.close(CloseOptions)': async (options) =>
    await (await new ScratchPlace().create()).close(options),
  'CellStore.create(StoreOptions)': (options) => into((directory) => CellStore.create(directory, options)),
  'CellStore.createCell(BranchCellOptions)': (options: { from?: unknown }, { store, cell }) => {
    const { from } = 'from' in options ? options : { from: {} }
    const isSource = typeof from === 'object' && from !== null && !Array.isArray(from)
    return store.createCell({ ...options, from: isSource ? { cellId: cell.id, ...from } : from } as never)
  },
  'CellStore.createCell(CreateCellOptions)': (options, { store }) => store.createCell(options),
  'CellStore.deleteCell(DeleteCellOptions)': (options, { store }) =>
    store.deleteCell(store.createCell().id, options),
  'CellStore.findCellByName(FindByNameOptions)': (options, { store }) =>
    store.findCellByName('named', options),
  'CellStore.importCell(ImportCellOptions)': async (options, { store, cell }) => {
    const file = path.join(tempDirectory(), 'imported.db')
    await cell.export(file)
    await store.importCell(file, options)
  },
  'CellStore.open(StoreOptions)': async (options, { closed }) =>
    await (await CellStore.open(closed, options)).close(),
  'CellStore.openOrCreate(StoreOptions)': (options) =>
    into((directory) => CellStore.openOrCreate(directory, options)),
  'CellStore.purgeCell(CallOptions)': async (options, { store }) => {
    const { id } = store.createCell()
    store.deleteCell(id)
    await store.purgeCell(id, options)
  },
  'Kv.delete(KvDeleteOptions)': (options, { cell }) => cell.kv.delete('k', options),
  'Kv.incr(KvTtlOptions)': (options, { cell }) => cell.kv.incr('n', 1, options),
  'Kv.incrEntry(KvTtlOptions)': (options, { cell }) => cell.kv.incrEntry('n', 1, options),
  'Kv.keys(KvKeysOptions)': (options, { cell }) => cell.kv.keys(options),
  'Kv.list(KvListOptions)': (options, { cell }) => cell.kv.list(options),
  'Kv.put(KvPutEntry)': (options: object, { cell }) => cell.kv.put([{ key: 'k', value: 'w', ...options }]),
  'Kv.put(KvPutOptions)': (options, { cell }) => cell.kv.put('k', 'w', options),
  'Kv.putJson(KvPutOptions)': (options, { cell }) => cell.kv.putJson('k', 'w', options),
  'Retention.ownPlan(CallOptions)': (options, { store, cell }) => store.retention?.ownPlan(cell.id, options),
  'Retention.pin(CallOptions)': (options, { store, cell, version }) =>
    store.retention?.pin(cell.id, version, options),
  'Retention.prune(PruneOptions)': (options, { store, cell }) => store.retention?.prune(cell.id, options),
  'Retention.setPlan(CallOptions)': (options, { store, cell }) =>
    store.retention?.setPlan(cell.id, null, options),
  'Retention.unpin(CallOptions)': (options, { store, cell, version }) =>
    store.retention?.unpin(cell.id, version, options),
  'createHandler(HandlerOptions)': (options, { store }) => createHandler(store, options),
  'createListener(HandlerOptions)': (options, { store }) => createListener(store, options),
  'new FileObjectStore(FileObjectStoreOptions)': (options: object) =>
    new FileObjectStore({ root: tempDirectory(), ...options }),
  'new S3ObjectStore(S3ObjectStoreOptions)': (options: object) =>
    new S3ObjectStore({ bucket: 'bucket', endpoint: 'http://127.0.0.1:1', ...options }),
  'temporaryStore(StoreOptions)': async (options) => await (await temporaryStore(options)).close(),
}

/** What takes options and does not check them, and why. */
const UNCHECKED: Record<string, string> = {
  CellStorage:
    'has the shape of a Durable Object’s storage, for code that passes options of which there are none here',
  StorageKv: 'as CellStorage',
  CellError: 'describes an error, and must not cause another one',
  FileObjectStore: 'its methods are called by a store, as those of an object store of your own',
  S3ObjectStore: 'its methods are called by a store, as those of an object store of your own',
}

/** Options whose own reader refuses what they hold, some of it later. */
const PASSED_ON: ReadonlySet<string> = new Set([
  // The AWS SDK knows more forms of them.
  'credentials',
  'credentials.accessKeyId',
  'credentials.secretAccessKey',
  'credentials.sessionToken',
])

/** Guards that the types cannot refuse: callers name the type of their rows, and then TypeScript infers nothing. */
const UNTYPED: ReadonlySet<string> = new Set(['Cell.sql(SqlOptions) readOnly'])

const keyOf = ({ name, type }: PublicOptions) => `${name}(${type})`
const isUnchecked = ({ name }: PublicOptions) =>
  Object.hasOwn(UNCHECKED, name.replace(/^new /, '').split('.')[0] as string)
const takesMethods = ({ name }: PublicOptions) => !name.startsWith('new ') || name === 'new CellError'

const all = publicOptions()
const checked = all.filter((each) => !(isUnchecked(each) && takesMethods(each)))
const each = checked.map((taken): [string, PublicOptions] => [keyOf(taken), taken])

const NO_SCHEDULE = { snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null }

let under: Under
beforeAll(async () => {
  const temporary = await temporaryStore({ backups: NO_SCHEDULE })
  const { store } = temporary
  const account = store.accounts.create().id
  const cell = store.createCell({ name: 'app' })
  cell.exec('CREATE TABLE t (a)')
  cell.kv.put('k', 'v', { ttlSeconds: 100 })
  cell.kv.put('n', '1')
  const { version } = await store.backups.snapshot(cell.id)
  const closed = path.join(temporary.directory, 'closed')
  await (await CellStore.create(closed)).close()
  under = { store, cell, account, keyId: store.apiKeys.create(account).id, version, closed }
  return () => temporary.close()
})

/** The object of options in which one has a value. */
function withOption(optionPath: string, value: unknown): never {
  const [name = '', ...rest] = optionPath.split('.')
  return { [name]: rest.length === 0 ? value : withOption(rest.join('.'), value) } as never
}

async function errorOf(taken: PublicOptions, options: never): Promise<unknown> {
  try {
    await (CALLS[keyOf(taken)] as Call)(options, under)
    return undefined
  } catch (error) {
    return error
  }
}

const fieldOf = ({ isList }: PublicOptions, { path }: PublicOption) => (isList ? `entries[0].${path}` : path)

function contents() {
  const { store, cell, account } = under
  return {
    cells: store.cells({ limit: 1_000 }).cells.map(({ id, name }) => [id, name]),
    deleted: store.cells({ deleted: true }).cells.length,
    accounts: store.accounts.list(),
    keys: store.apiKeys.list(account),
    entries: cell.kv.list().entries.map(({ ttlSeconds: _, ...entry }) => entry),
    rows: cell.sql('SELECT count(*) FROM t').rows,
  }
}

test('every function that takes options is called here, or the list says why it checks none', () => {
  expect(Object.keys(CALLS).toSorted()).toEqual(checked.map(keyOf).toSorted())
})

test('the list of what is checked is up to date, for people to read', async () => {
  const lines = [
    'The functions of the package that take options. This file is made by checked-options.test.ts.',
    '',
  ]
  for (const taken of checked) lines.push(`${taken.name}: ${taken.type}`)
  lines.push('', 'Not checked:')
  for (const [name, why] of Object.entries(UNCHECKED)) lines.push(`${name}: ${why}`)
  lines.push(
    '',
    'The options. Each is refused by its name if it has another type; with a *, also if it is there and undefined.',
  )
  const shapes = new Map(checked.map((taken) => [taken.type, taken.options]))
  for (const [type, options] of [...shapes].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    lines.push('', type)
    for (const { path: name, type: declared, mayBeUndefined } of options)
      lines.push(`  ${name}${mayBeUndefined ? '' : ' *'}: ${declared.replace(/ \| undefined$/, '')}`)
  }
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('checked-options.txt')
})

describe('an option is refused by its name before anything happens', () => {
  test.each(each)('if it has a wrong type, or is not known: %s', async (_, taken) => {
    // What is refused late would be found in here; what a call makes to be refused is not its doing.
    const makesItsOwn = /deleteCell|purgeCell/.test(taken.name)
    const before = contents()
    const refusal = async (field: string, options: never, value: unknown) => {
      const error = await errorOf(taken, options)
      const shown = typeof value === 'symbol' ? value : JSON.stringify(value)
      const what = `${keyOf(taken)} ${field}: ${String(shown ?? value)}`
      expect(isCellError(error) ? error.details.field : error, what).toBe(field)
      return error as Error
    }
    for (const option of taken.options) {
      if (PASSED_ON.has(option.path)) continue
      for (const value of option.wrong) {
        const error = await refusal(fieldOf(taken, option), withOption(option.path, value), value)
        expect(error.message).not.toMatch('is not known')
      }
    }
    const unknown = `${taken.options[0]?.path}x`
    const field = fieldOf(taken, { path: unknown } as PublicOption)
    expect((await refusal(field, withOption(unknown, 1), 1)).message).toMatch(/not known: did you mean/)
    if (!makesItsOwn) expect(contents()).toEqual(before)
  })

  test.each(each)('if it narrows or guards and is undefined: %s', async (_, taken) => {
    for (const option of taken.options) {
      if (PASSED_ON.has(option.path)) continue
      const error = await errorOf(taken, withOption(option.path, undefined))
      const field = isCellError(error) ? error.details.field : undefined
      const isRefused = field === fieldOf(taken, option)
      expect([option.path, isRefused], String(error)).toEqual([option.path, !option.mayBeUndefined])
    }
  })
})

describe('types without exactOptionalPropertyTypes', () => {
  test('refuse a guard that is undefined, and take others', () => {
    const tries = checked.flatMap((taken) =>
      taken.options
        .filter(({ path: name }) => !PASSED_ON.has(name))
        .flatMap((option) => triesOf(taken, option)),
    )
    const refused = refusedLines(tries.map(({ line }) => line))
    expect(tries.filter((each, i) => refused.has(i) !== each.isRefused).map(({ line }) => line)).toEqual([])
  })
})

/** Calls with an option that is undefined, or may be, as lines of a program; whatever else there has to be is of type `never`. */
function triesOf(taken: PublicOptions, option: PublicOption) {
  const primitive = /boolean|number|string/.exec(option.type)?.[0]
  const values = option.mayBeUndefined ? ['undefined'] : ['undefined', `null! as ${primitive} | undefined`]
  return values.map((value) => {
    const options = literalOf(taken.options, option.path, value)
    const before = Array.from({ length: taken.position }, () => 'null!')
    const call = `${taken.callee}(${[...before, taken.isList ? `[${options}]` : options].join(', ')})`
    const line = `{ const value: ${taken.owner ?? 'unknown'} = null!; void [value, () => ${call}] }`
    return { line, isRefused: !option.mayBeUndefined && !UNTYPED.has(`${keyOf(taken)} ${option.path}`) }
  })
}

/** An object with one option and those that are required beside it. */
function literalOf(options: readonly PublicOption[], optionPath: string, value: string): string {
  const [name = '', ...rest] = optionPath.split('.')
  const inside = options
    .filter((each) => each.path.startsWith(`${name}.`))
    .map((each) => ({ ...each, path: each.path.slice(name.length + 1) }))
  const own = rest.length === 0 ? value : literalOf(inside, rest.join('.'), value)
  const required = options.filter((each) => each.isRequired && !each.path.includes('.') && each.path !== name)
  return `{ ${[`${name}: ${own}`, ...required.map((each) => `${each.path}: null!`)].join(', ')} }`
}
