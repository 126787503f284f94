import { Readable } from 'node:stream'
import type { Clock } from '../../base/clock.ts'
import { exists } from '../../base/files/durable-files.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import { CellError } from '../../errors.ts'
import { SQLITE_TYPE } from '../../http/body/file-body.ts'
import { ReadableBody } from '../../http/body/readable-body.ts'
import { Application } from '../../http/core/application.ts'
import type { HttpRequest } from '../../http/core/http-message.ts'
import { splitTarget } from '../../http/core/request-target.ts'
import { OWNER } from '../../http/routes/owner/owner-routes.ts'
import { CellStore } from '../../store/cell-store.ts'
import { objectStoreOf, type StoreFlags } from '../flags.ts'
import type { OwnerRequest, Transport } from './owner-client.ts'

/**
 * Opens the store in this process: no node runs on it.
 *
 * @param bringsBack a directory without a store gets the one back whose backups are in the object store, if the flags name that
 * @throws `store_not_found`, `store_locked`, and as opening a store does
 */
export async function openStore(
  flags: StoreFlags,
  clock: Clock,
  log: Log,
  bringsBack: boolean,
): Promise<Transport> {
  const objectStore = objectStoreOf(flags)
  // A command brings no store back from the object store unless it is for that: a node may run on it elsewhere.
  const mayBringBack = bringsBack && flags.objectStore !== undefined
  if (!mayBringBack && !exists(new StorePaths(flags.dataDir).catalog))
    throw noStore(flags.dataDir, objectStore, bringsBack)
  // A command does what it is for, and leaves the rest to the node.
  const { keep, keepTenant, history } = flags
  const backups = {
    snapshotEveryMs: null,
    incrementalEveryMs: null,
    drillEveryMs: null,
    maxLagMs: null,
    prune: false,
    recoverInBackground: false,
    keep,
    keepTenant,
    historyMs: history,
  }
  const options = { objectStore, objectStoreWaitMs: flags.objectStoreWait, backups, clock, log }
  return storeTransport(await CellStore.open(flags.dataDir, options))
}

/** Answers requests in this process, which has the store open. */
export function storeTransport(store: CellStore): Transport {
  const application = new Application(store, {}, OWNER)
  const send: Transport['send'] = async (request) => {
    const { status, body } = await application.handle(localRequest(request))
    if (body instanceof ReadableBody) return { status, body: '', file: body.open() }
    return { status, body: typeof body === 'string' ? body : Buffer.from(body).toString() }
  }
  const changed = () => store.retention?.summary().changed ?? 0
  const changedBefore = changed()
  const unstored = () => {
    const count = changed()
    // A cell that had changed before is in no version either, with what it has now.
    const isOurs = count > changedBefore || store.metrics().commits > 0
    return count > 0 && isOurs ? unstoredNote(count) : undefined
  }
  return { send, unstored, close: () => store.close() }
}

/** A command ships nothing: it would have to ship what others have left, too. */
function unstoredNote(count: number): string {
  const cells = count === 1 ? 'One cell has' : `${count} cells have`
  return `${cells} changes that are on this machine only. The next \`cellstore serve\` ships them; \`cellstore backup\` stores them now.`
}

/** A request that never was on a wire. */
function localRequest({ method, target, body = '', file, signal, onProgress }: OwnerRequest): HttpRequest {
  const bytes = Buffer.from(body)
  const type = file === undefined ? 'application/json' : SQLITE_TYPE
  return {
    ...splitTarget(target, ''),
    method,
    mount: '',
    contentLength: file === undefined ? bytes.length : undefined,
    signal: signal ?? new AbortController().signal,
    onProgress,
    read: bytes,
    headers: { 'content-type': type },
    header: (name) => (name === 'content-type' ? type : undefined),
    readBody: async () => ({ kind: 'bytes', bytes }),
    stream: () => file ?? Readable.from([bytes]),
  }
}

function noStore(dataDir: string, objectStore: string, bringsBack: boolean): CellError {
  const mend = bringsBack
    ? 'To bring back a store whose backups are in an object store, name that with --object-store.'
    : `\`cellstore serve\` makes one, or brings back the one whose backups are in ${objectStore}.`
  return new CellError('store_not_found', `There is no store in ${dataDir}. ${mend}`)
}
