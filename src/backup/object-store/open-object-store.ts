import fs from 'node:fs'
import path from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import { FileObjectStore } from './file/file-object-store.ts'
import type { ObjectStore } from './object-store.ts'
import { S3ObjectStore } from './s3/s3-object-store.ts'
import type { S3ObjectStoreOptions } from './s3/s3-settings.ts'

export interface OpenObjectStoreOptions {
  clock: Clock
  /** The store's own directory, to refuse backups that would be lost with it. */
  dataDir?: string | undefined
}

const FORMS =
  'file:///absolute/folder, file://./relative/folder or s3://bucket/prefix?endpoint=…&region=…&path_style=…'

/**
 * The object store that a URL names: `file:///absolute`, `file://./relative`, or
 * `s3://bucket/prefix?endpoint=…&region=…&path_style=true` with credentials from where AWS's tools look. Nothing is read
 * or written yet.
 *
 * @throws `invalid_setting`, without the URL where it may hold a secret.
 */
export function openObjectStore(url: string, { clock, dataDir }: OpenObjectStoreOptions): ObjectStore {
  if (url.startsWith('file:')) {
    const root = folderOf(url)
    if (dataDir !== undefined) refuseSharedFolder(root, dataDir)
    return new FileObjectStore({ root, clock })
  }
  if (url.startsWith('s3:')) return new S3ObjectStore({ ...s3Options(url), clock })
  if (/^[a-z][a-z0-9+.-]*:/i.test(url)) throw invalid(`The object store has to be one of ${FORMS}.`)
  const isAbsolute = path.isAbsolute(url)
  const form = isAbsolute || /^\.\.?(\/|$)/.test(url) ? `file://${url}` : `file://./${url}`
  throw invalid(`The object store is named by a URL: write ${form} for this folder.`)
}

function folderOf(url: string): string {
  const [, encoded] = /^file:\/\/(\/.*|\.\.?(?:\/.*)?)$/s.exec(url) ?? []
  if (encoded === undefined) {
    throw invalid('A folder is named by file:///absolute/folder or file://./relative/folder.')
  }
  if (/[?#]/.test(encoded))
    throw invalid('A folder takes no parameters; write %3F for ? and %23 for # in its name.')
  const folder = path.resolve(decoded(encoded))
  if (folder === path.parse(folder).root)
    throw invalid('The root of the file system can not be the object store.')
  return folder
}

/** Backups in the data directory are lost with it; and the data directory among the backups would be listed as some. */
function refuseSharedFolder(root: string, dataDir: string): void {
  const objects = realPath(root)
  const data = realPath(path.resolve(dataDir))
  if (isWithin(objects, data)) {
    throw invalid(
      `The object store ${root} lies inside the data directory ${dataDir} and would be lost with it: choose a folder beside it.`,
    )
  }
  if (isWithin(data, objects)) {
    throw invalid(
      `The data directory ${dataDir} lies inside the object store ${root}: choose folders that do not hold one another.`,
    )
  }
}

function isWithin(inner: string, outer: string): boolean {
  const relative = path.relative(outer, inner)
  return relative === '' || (relative.split(path.sep)[0] !== '..' && !path.isAbsolute(relative))
}

/** A path with its links followed as far as it exists; the rest is yet to be made. */
function realPath(file: string): string {
  try {
    return fs.realpathSync(file)
  } catch {
    const parent = path.dirname(file)
    return parent === file ? file : path.join(realPath(parent), path.basename(file))
  }
}

function s3Options(text: string): S3ObjectStoreOptions {
  if (!text.startsWith('s3://') || !URL.canParse(text))
    throw invalid('An S3 store is named by s3://bucket/prefix?….')
  const url = new URL(text)
  if (url.username !== '' || url.password !== '') {
    throw invalid(
      'The URL of an object store must not hold credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
    )
  }
  if (url.port !== '' || url.hash !== '') throw invalid('An S3 store is named by s3://bucket/prefix?….')
  const parameters = s3Parameters(url.searchParams)
  return { bucket: decoded(url.hostname), prefix: decoded(url.pathname), ...parameters }
}

function s3Parameters(
  query: URLSearchParams,
): Pick<S3ObjectStoreOptions, 'endpoint' | 'region' | 'pathStyle'> {
  const known = ['endpoint', 'region', 'path_style']
  for (const name of query.keys()) {
    // Only what looks like a name is repeated: a credential may have got here by mistake.
    const shown = /^[A-Za-z_-]{1,40}$/.test(name) ? ` "${name}"` : ''
    if (!known.includes(name)) {
      throw invalid(`The object store's URL has an unknown parameter${shown}; there are ${known.join(', ')}.`)
    }
    if (query.getAll(name).length > 1)
      throw invalid(`The object store's URL has the parameter${shown} more than once.`)
    if (query.get(name) === '')
      throw invalid(`The object store's URL has the parameter${shown} without a value.`)
  }
  const pathStyle = query.get('path_style') ?? undefined
  if (pathStyle !== undefined && pathStyle !== 'true' && pathStyle !== 'false') {
    throw invalid('path_style in the URL of the object store is true or false.')
  }
  return {
    endpoint: query.get('endpoint') ?? undefined,
    region: query.get('region') ?? undefined,
    pathStyle: pathStyle === undefined ? undefined : pathStyle === 'true',
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw invalid('The URL of the object store holds a % that is not followed by two hexadecimal digits.')
  }
}

function invalid(message: string): CellError {
  return new CellError('invalid_setting', message, { field: 'objectStore' })
}
