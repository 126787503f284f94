import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { S3Credentials } from '../../../src/backup/object-store/s3/s3-settings.ts'

export interface S3Request {
  method: string
  /** Without the bucket; empty where the request is about the bucket. */
  key: string
  query: URLSearchParams
  headers: http.IncomingHttpHeaders
  body: Buffer
}

export interface Answer {
  status: number
  headers?: Record<string, string | number>
  body?: Buffer
}

/** What a script can do with a request, instead of the proper thing or beside it. */
export interface Exchange {
  carryOut(): Answer
  send(answer: Answer): void
  /** Ends the connection without a further word. */
  drop(): void
  response: http.ServerResponse
}

export type Script = (request: S3Request, exchange: Exchange) => void

/** Does what a good S3 does. */
export const proceed: Script = (_, { carryOut, send }) => send(carryOut())

interface StoredObject {
  bytes: Buffer
  metadata: Record<string, string>
  etag: string
  /** An object that a test has put there is as old as can be. */
  modified?: Date
}

interface StoredUpload {
  key: string
  metadata: Record<string, string>
  parts: Map<number, Buffer>
  begun: Date
}

/**
 * A small S3 in memory that does as a test tells it: `intercept` sees every request and may carry it out and lose the
 * answer, answer without carrying it out, stall, or cut the connection. By default it is a good S3 that honours
 * conditions also at the end of an upload.
 */
export class ScriptedS3 {
  readonly bucket = 'scripted'
  readonly credentials: S3Credentials = { accessKeyId: 'scripted-id', secretAccessKey: 'scripted-secret' }
  readonly objects = new Map<string, StoredObject>()
  readonly uploads = new Map<string, StoredUpload>()
  readonly requests: S3Request[] = []
  /** What is made of `If-None-Match: *`. */
  conditions: 'honoured' | 'ignored' | 'refused' = 'honoured'
  pageSize = 1000
  intercept: Script = proceed
  readonly #server: http.Server

  private constructor(server: http.Server) {
    this.#server = server
    server.on('request', (incoming, response) => {
      // A script that throws is a fault of the test, which else would wait for its answer.
      this.#serve(incoming, response).catch((error: unknown) => {
        response.destroy()
        queueMicrotask(() => {
          throw error
        })
      })
    })
  }

  static async start(): Promise<ScriptedS3> {
    const server = http.createServer()
    const scripted = new ScriptedS3(server)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return scripted
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Applies `script` to the requests that `when` picks, the first `times` of them; never to the store's probes. */
  interfere(when: (request: S3Request) => boolean, script: Script, times = Number.POSITIVE_INFINITY): void {
    let left = times
    this.intercept = (request, exchange) => {
      const use = !isProbe(request) && when(request) && left-- > 0 ? script : proceed
      use(request, exchange)
    }
  }

  requestsOf(when: (request: S3Request) => boolean): S3Request[] {
    return this.requests.filter((request) => !isProbe(request) && when(request))
  }

  /** From then on connections are refused. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #serve(incoming: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of incoming) chunks.push(chunk)
    } catch {
      // The client went away in the middle of its request: nothing was asked.
      return
    }
    const url = new URL(incoming.url ?? '/', this.endpoint)
    const [bucket = '', ...segments] = url.pathname.slice(1).split('/')
    const request: S3Request = {
      method: incoming.method ?? '',
      key: segments.map(decodeURIComponent).join('/'),
      query: url.searchParams,
      headers: incoming.headers,
      body: Buffer.concat(chunks),
    }
    this.requests.push(request)
    this.intercept(request, {
      carryOut: () => (bucket === this.bucket ? this.#carryOut(request) : failure(404, 'NoSuchBucket')),
      send: ({ status, headers = {}, body = Buffer.alloc(0) }) => {
        response.writeHead(status, { 'content-length': body.length, ...headers })
        response.end(request.method === 'HEAD' ? undefined : body)
      },
      drop: () => response.destroy(),
      response,
    })
  }

  #carryOut(request: S3Request): Answer {
    const { method, key, query } = request
    if (key === '') return this.#aboutBucket(method, query)
    if (method === 'POST' && query.has('uploads')) return this.#begin(request)
    if (query.has('uploadId')) return this.#aboutUpload(request, query.get('uploadId') ?? '')
    if (method === 'PUT') return this.#put(request, request.body, metadataOf(request))
    if (method === 'DELETE') {
      this.objects.delete(key)
      return { status: 204 }
    }
    return this.#get(request)
  }

  #aboutBucket(method: string, query: URLSearchParams): Answer {
    if (method === 'HEAD') return { status: 200 }
    return query.has('uploads') ? this.#listUploads(query) : this.#listObjects(query)
  }

  #put({ key, headers }: S3Request, bytes: Buffer, metadata: Record<string, string>): Answer {
    if (headers['if-none-match'] === '*') {
      if (this.conditions === 'refused') return failure(501, 'NotImplemented')
      if (this.conditions === 'honoured' && this.objects.has(key)) return failure(412, 'PreconditionFailed')
    }
    const etag = `"${createHash('md5').update(bytes).digest('hex')}"`
    this.objects.set(key, { bytes, metadata, etag, modified: new Date() })
    return { status: 200, headers: { etag } }
  }

  #get({ key, headers }: S3Request): Answer {
    const object = this.objects.get(key)
    if (object === undefined) return failure(404, 'NoSuchKey')
    const { bytes, etag, metadata } = object
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? []
    if (from === undefined) {
      return { status: 200, headers: { etag, ...metadata, 'content-length': bytes.length }, body: bytes }
    }
    if (Number(from) >= bytes.length) return failure(416, 'InvalidRange')
    const part = bytes.subarray(Number(from), to === '' ? undefined : Number(to) + 1)
    const range = `bytes ${from}-${Number(from) + part.length - 1}/${bytes.length}`
    return { status: 206, headers: { etag, ...metadata, 'content-range': range }, body: part }
  }

  #begin(request: S3Request): Answer {
    const id = randomUUID()
    const metadata = metadataOf(request)
    this.uploads.set(id, { key: request.key, metadata, parts: new Map(), begun: new Date() })
    return xml('InitiateMultipartUploadResult', element('Key', request.key) + element('UploadId', id))
  }

  #aboutUpload(request: S3Request, id: string): Answer {
    const upload = this.uploads.get(id)
    if (upload === undefined) return failure(404, 'NoSuchUpload')
    if (request.method === 'PUT') {
      upload.parts.set(Number(request.query.get('partNumber')), request.body)
      return { status: 200, headers: { etag: `"${createHash('md5').update(request.body).digest('hex')}"` } }
    }
    if (request.method === 'DELETE') {
      this.uploads.delete(id)
      return { status: 204 }
    }
    const parts = [...upload.parts].sort(([a], [b]) => a - b).map(([, bytes]) => bytes)
    const stored = this.#put(request, Buffer.concat(parts), upload.metadata)
    if (stored.status !== 200) return stored
    this.uploads.delete(id)
    return xml('CompleteMultipartUploadResult', element('Key', request.key))
  }

  #listObjects(query: URLSearchParams): Answer {
    const after = query.get('continuation-token') ?? query.get('start-after') ?? ''
    const keys = [...this.objects.keys()]
      .filter((key) => key.startsWith(query.get('prefix') ?? '') && compare(key, after) > 0)
      .sort(compare)
    const page = keys.slice(0, this.pageSize)
    const contents = page.map((key) => {
      const { bytes, modified = new Date(0) } = this.objects.get(key) as StoredObject
      const size = element('Size', String(bytes.length))
      return element(
        'Contents',
        element('Key', escaped(key)) + size,
        element('LastModified', modified.toISOString()),
      )
    })
    const isTruncated = keys.length > page.length
    const next = isTruncated ? element('NextContinuationToken', escaped(page.at(-1) ?? '')) : ''
    return xml('ListBucketResult', ...contents, element('IsTruncated', String(isTruncated)), next)
  }

  #listUploads(query: URLSearchParams): Answer {
    const after = `${query.get('key-marker') ?? ''}\n${query.get('upload-id-marker') ?? ''}`
    const markers = [...this.uploads]
      .map(([id, upload]) => ({ id, upload, marker: `${upload.key}\n${id}` }))
      .filter(
        ({ upload, marker }) =>
          upload.key.startsWith(query.get('prefix') ?? '') && compare(marker, after) > 0,
      )
      .sort((a, b) => compare(a.marker, b.marker))
    const page = markers.slice(0, this.pageSize)
    const uploads = page.map(({ id, upload }) =>
      element(
        'Upload',
        element('Key', escaped(upload.key)) + element('UploadId', id),
        element('Initiated', upload.begun.toISOString()),
      ),
    )
    const last = page.at(-1)
    const isTruncated = markers.length > page.length
    const next =
      isTruncated && last !== undefined
        ? element('NextKeyMarker', escaped(last.upload.key)) + element('NextUploadIdMarker', last.id)
        : ''
    return xml('ListMultipartUploadsResult', ...uploads, element('IsTruncated', String(isTruncated)), next)
  }
}

/** True for the requests that a store finds out with whether conditions are honoured. */
export function isProbe({ key }: S3Request): boolean {
  return key.includes('.cellstore/probes/')
}

export function failure(status: number, code: string): Answer {
  return { ...xml('Error', element('Code', code), element('Message', 'as the script says')), status }
}

function metadataOf({ headers }: S3Request): Record<string, string> {
  const metadata = Object.entries(headers).filter(([name]) => name.startsWith('x-amz-meta-'))
  return Object.fromEntries(metadata.map(([name, value]) => [name, String(value)]))
}

function xml(name: string, ...content: string[]): Answer {
  const body = Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>${element(name, ...content)}`)
  return { status: 200, headers: { 'content-type': 'application/xml' }, body }
}

function element(name: string, ...content: string[]): string {
  return `<${name}>${content.join('')}</${name}>`
}

function escaped(text: string): string {
  return text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`)
}

function compare(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
