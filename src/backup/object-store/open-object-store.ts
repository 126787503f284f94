import fs from 'node:fs'
import path from 'node:path'
import { isError } from '../../base/any-realm.ts'
import type { Clock } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import { FileObjectStore } from './file/file-object-store.ts'
import type { ObjectStore } from './object-store.ts'
import { S3ObjectStore } from './s3/s3-object-store.ts'
import type { S3ObjectStoreOptions } from './s3/s3-settings.ts'

interface OpenObjectStoreOptions {
  clock: Clock
  /** The store's data directory. An object store inside it is refused, since it would be lost together with the data. */
  dataDir?: string | undefined
  /** Checks that a folder exists or can be made. By default opening touches nothing. */
  checksFolder?: boolean | undefined
}

const FORMS =
  'file:///absolute/folder, file://./relative/folder or s3://bucket/prefix?endpoint=…&region=…&path_style=…'

/**
 * Opens the object store that a URL names: `file:///absolute`, `file://./relative`, or
 * `s3://bucket/prefix?endpoint=…&region=…&path_style=true`. The S3 credentials come from the places that AWS's tools use.
 * Opening keeps nothing and asks nobody.
 *
 * @throws `invalid_setting`. The message does not repeat an S3 URL, which may hold a secret.
 */
export function openObjectStore(
  url: string,
  { clock, dataDir, checksFolder = false }: OpenObjectStoreOptions,
): ObjectStore {
  if (url.startsWith('file:')) {
    const root = folderOf(url)
    if (dataDir !== undefined) refuseSharedFolder(root, dataDir)
    if (checksFolder) assertFolderPossible(root)
    return new FileObjectStore({ root, clock })
  }
  if (url.startsWith('s3:')) return new S3ObjectStore({ ...s3Options(url), clock })
  if (/^[a-z][a-z0-9+.-]*:/i.test(url))
    throw invalid(`The scheme of the object store URL is not supported. Use ${FORMS}.`)
  const isAbsolute = path.isAbsolute(url)
  const form = isAbsolute || /^\.\.?(\/|$)/.test(url) ? `file://${url}` : `file://./${url}`
  throw invalid(`The object store must be a URL. For this folder, write ${form}.`)
}

function folderOf(url: string): string {
  const [, encoded] = /^file:\/\/(\/.*|\.\.?(?:\/.*)?)$/s.exec(url) ?? []
  if (encoded === undefined) {
    throw invalid('The folder URL is not valid. Write file:///absolute/folder or file://./relative/folder.')
  }
  if (/[?#]/.test(encoded))
    throw invalid('A folder URL takes no parameters. In a name, write %3F for ? and %23 for #.')
  const folder = path.resolve(decoded(encoded))
  if (folder === path.parse(folder).root)
    throw invalid('The object store must not be the root of the file system. Choose a folder below it.')
  return folder
}

/** Backups inside the data directory would be lost with it. A data directory inside the backups would be listed with them. */
function refuseSharedFolder(root: string, dataDir: string): void {
  const objects = realPath(root)
  const data = realPath(path.resolve(dataDir))
  if (isWithin(objects, data)) {
    throw invalid(
      `The object store ${root} lies inside the data directory ${dataDir} and would be lost with it. Choose a folder outside the data directory.`,
    )
  }
  if (isWithin(data, objects)) {
    throw invalid(
      `The data directory ${dataDir} lies inside the object store ${root}. Choose folders that do not contain each other.`,
    )
  }
}

function isWithin(inner: string, outer: string): boolean {
  const relative = path.relative(outer, inner)
  return relative === '' || (relative.split(path.sep)[0] !== '..' && !path.isAbsolute(relative))
}

/** A path whose existing part has its links resolved. The rest of the path does not exist yet. */
function realPath(file: string): string {
  try {
    return fs.realpathSync(file)
  } catch {
    const parent = path.dirname(file)
    return parent === file ? file : path.join(realPath(parent), path.basename(file))
  }
}

function s3Options(text: string): S3ObjectStoreOptions {
  if (/^s3:\/{0,2}(?:[?#]|$)|^s3:\/{3}/.test(text)) {
    throw invalid('The S3 URL has no bucket. Write s3://bucket/prefix?endpoint=…&region=…&path_style=….')
  }
  if (!text.startsWith('s3://') || !URL.canParse(text)) throw invalidS3Url()
  const url = new URL(text)
  if (url.username !== '' || url.password !== '') {
    throw invalid(
      'The object store URL must not hold credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead.',
    )
  }
  if (url.port !== '' || url.hash !== '') throw invalidS3Url()
  const parameters = s3Parameters(url.searchParams)
  return { bucket: decoded(url.hostname), prefix: decoded(url.pathname), ...parameters }
}

function s3Parameters(
  query: URLSearchParams,
): Pick<S3ObjectStoreOptions, 'endpoint' | 'region' | 'pathStyle'> {
  const known = ['endpoint', 'region', 'path_style']
  for (const name of query.keys()) {
    // The message repeats only a plain name: a credential may be here by mistake.
    const shown = /^[A-Za-z_-]{1,40}$/.test(name) ? ` "${name}"` : ''
    if (!known.includes(name)) {
      throw invalid(`The object store URL has an unknown parameter${shown}. Use ${known.join(', ')}.`)
    }
    if (query.getAll(name).length > 1)
      throw invalid(`The object store URL has the parameter${shown} more than once.`)
    if (query.get(name) === '')
      throw invalid(`The object store URL has the parameter${shown} without a value.`)
  }
  const pathStyle = query.get('path_style') ?? undefined
  if (pathStyle !== undefined && pathStyle !== 'true' && pathStyle !== 'false') {
    throw invalid('In the object store URL, path_style must be true or false.')
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
    throw invalid(
      'In the object store URL, two hexadecimal digits must follow each %. Write %25 for a single %.',
    )
  }
}

function invalidS3Url(): CellError {
  return invalid('The S3 URL is not valid. Write s3://bucket/prefix?endpoint=…&region=…&path_style=….')
}

function invalid(message: string): CellError {
  return new CellError('invalid_setting', message, { field: 'objectStore' })
}

/**
 * Checks that a folder that does not exist yet can be made: otherwise a start would wait for it, as for an object store that
 * does not answer. Leaves nothing behind.
 *
 * @throws `invalid_setting`
 */
function assertFolderPossible(folder: string): void {
  if (fs.existsSync(folder)) return
  let missing = folder
  while (!fs.existsSync(path.dirname(missing))) missing = path.dirname(missing)
  try {
    fs.mkdirSync(missing)
    fs.rmdirSync(missing)
  } catch (cause) {
    // Another process has just made it, or filled it.
    if (fs.existsSync(missing)) return
    const why = isError(cause) && 'code' in cause ? ` (${String(cause.code)})` : ''
    throw new CellError(
      'invalid_setting',
      `The object store cannot be the folder ${folder}: it does not exist, and it cannot be made${why}.`,
      { field: 'objectStore', cause },
    )
  }
}
