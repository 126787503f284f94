import { Readable } from 'node:stream'
import type {
  GetObjectCommandOutput,
  ListMultipartUploadsCommandOutput,
  ListObjectsV2CommandOutput,
} from '@aws-sdk/client-s3'
import { CellError } from '../../../errors.ts'
import type { ObjectEntry } from '../object-store.ts'

/** The body of a GET, checked against its headers. */
export interface Received {
  /** The number of bytes that `stream` should hold. */
  length: number
  stream: Readable
  /** Changes when the object does. */
  etag: string | undefined
}

export interface ListedObject extends ObjectEntry {
  /** Milliseconds since the epoch, by the endpoint's clock. */
  modifiedMs: number
}

/** An unfinished upload. */
export interface ListedUpload {
  key: string
  id: string
  /** Milliseconds since the epoch, by the endpoint's clock. */
  begunMs: number
}

export interface Page<T> {
  items: T[]
  /** The marker that asks for the next page; undefined on the last page. */
  next: string | undefined
}

/**
 * Checks an answer against its request: a body of unknown length could end early and look whole.
 *
 * @returns `beyond` if the object has no byte at `offset`, although the endpoint sent a range of it.
 */
export function received(answer: GetObjectCommandOutput, offset: number): Received | 'beyond' {
  const { Body, ContentLength, ContentRange, ETag } = answer
  if (!(Body instanceof Readable)) throw wrongAnswer('sent no body')
  const [start, total] = rangeOf(ContentRange)
  if (start === offset && total > offset && ContentLength !== undefined) {
    return { stream: Body, length: Math.min(ContentLength, total - offset), etag: ETag }
  }
  Body.on('error', () => {}).destroy()
  if (total <= offset) return 'beyond'
  throw wrongAnswer(
    start === offset ? 'did not say how long a body is' : 'sent another range than the request asked for',
  )
}

/** The first byte of a body and the size of its object. An answer without a range covers the whole object. */
function rangeOf(contentRange: string | undefined): [number, number] {
  if (contentRange === undefined) return [0, Number.POSITIVE_INFINITY]
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(contentRange) ?? []
  return [
    Number(start ?? Number.NaN),
    total === undefined || total === '*' ? Number.POSITIVE_INFINITY : Number(total),
  ]
}

/** A page of a bucket's objects. Their keys are relative to `prefix`. */
export function objectPage(answer: ListObjectsV2CommandOutput, prefix: string): Page<ListedObject> {
  const items = (answer.Contents ?? []).map(({ Key = '', Size = 0, LastModified }) => ({
    key: Key.slice(prefix.length),
    size: Size,
    modifiedMs: LastModified?.getTime() ?? Number.POSITIVE_INFINITY,
  }))
  return { items, next: nextPage(answer.IsTruncated, answer.NextContinuationToken) }
}

/** A page of a bucket's unfinished uploads. Their keys are relative to `prefix`. */
export function uploadPage(answer: ListMultipartUploadsCommandOutput, prefix: string): Page<ListedUpload> {
  const items = (answer.Uploads ?? []).map(({ Key = '', UploadId = '', Initiated }) => ({
    key: Key.slice(prefix.length),
    id: UploadId,
    begunMs: Initiated?.getTime() ?? Number.POSITIVE_INFINITY,
  }))
  const { NextKeyMarker, NextUploadIdMarker = '' } = answer
  const marker = NextKeyMarker === undefined ? undefined : `${NextKeyMarker}\n${NextUploadIdMarker}`
  return { items, next: nextPage(answer.IsTruncated, marker) }
}

/** The two markers of a page of uploads. A key holds no line feed, so a line feed separates them. */
export function uploadMarkers(next: string | undefined): string[] {
  return next?.split('\n') ?? []
}

/** The marker of the next page; undefined on the last. A list without end would be worse than a failed one. */
function nextPage(isTruncated: boolean | undefined, next: string | undefined): string | undefined {
  if (isTruncated !== true) return undefined
  if (next === undefined || next === '') throw wrongAnswer('did not say where a list continues')
  return next
}

/** The error for an answer that breaks the protocol. */
export function wrongAnswer(what: string): CellError {
  return new CellError('object_store_error', `The object store ${what}.`)
}
