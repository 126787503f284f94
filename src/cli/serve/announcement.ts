import packageJson from '../../../package.json' with { type: 'json' }
import { timeOf } from '../../service/json/time.ts'
import type { FirstKeyIssued } from './first-start.ts'

/** What a node prints on standard output, once, before it answers any request. */
export interface Announcement {
  address: string
  store: { readonly id: string }
  dataDir: string
  objectStore: string
  firstKey: FirstKeyIssued | undefined
}

/** @param json one document, for scripts */
export function announce(announcement: Announcement, json: boolean): string {
  return json ? `${JSON.stringify(documentOf(announcement))}\n` : forPeople(announcement)
}

function documentOf({ address, store, dataDir, objectStore, firstKey }: Announcement) {
  const place = {
    version: packageJson.version,
    address,
    store_id: store.id,
    data_dir: dataDir,
    object_store: objectStore,
  }
  if (firstKey === undefined) return { ...place, first_key: null }
  const { key, chosen } = firstKey
  const { id, name, hint, createdAt } = key
  return {
    ...place,
    first_key: { id, key: chosen ? null : key.key, name, hint, created_at: timeOf(createdAt) },
  }
}

function forPeople({ address, dataDir, objectStore, firstKey }: Announcement): string {
  const place = `cellstore ${packageJson.version} serves on ${address}\ndata in ${dataDir}, backups in ${objectStore}\n`
  if (firstKey === undefined) return place
  const { key, chosen } = firstKey
  const shown = chosen
    ? `The first API key is the one in CELLSTORE_ROOT_KEY: ${key.hint}…`
    : `The first API key, which is shown only now:\n\n    ${key.key}`
  const inCurl = chosen ? '$CELLSTORE_ROOT_KEY' : key.key
  return `${place}\n${shown}\n\nTry it:\n\n    curl -X POST ${address}/v1/databases -H "x-api-key: ${inCurl}"\n\n`
}
