import { Readable } from 'node:stream'
import { CellError } from '../../../errors.ts'
import type { Page, Received, RemoteObject, RemoteUpload } from './remote-object-store.ts'

/** The part of an answer to a GET that its body is checked by. */
export interface BodyAnswer {
  Body?: unknown
  ContentLength?: number | undefined
  ContentRange?: string | undefined
  ETag?: string | undefined
}

/**
 * Checks an answer against what was asked for: a body of unknown length could end early and look whole.
 *
 * @returns `beyond` where the object has no byte at `offset`, though the endpoint sent a range of it.
 */
export function received(answer: BodyAnswer, offset: number): Received | 'beyond' {
  const { Body, ContentLength, ContentRange, ETag } = answer
  if (!(Body instanceof Readable)) throw wrongAnswer('sent no body')
  const [start, total] = rangeOf(ContentRange)
  if (start === offset && total > offset && ContentLength !== undefined) {
    return { stream: Body, length: Math.min(ContentLength, total - offset), etag: ETag }
  }
  Body.on('error', () => {}).destroy()
  if (total <= offset) return 'beyond'
  throw wrongAnswer(
    start === offset ? 'does not say how long a body is' : 'sent another range than was asked for',
  )
}

/** First byte of a body and size of its object; an answer without a range is about the whole of it. */
function rangeOf(contentRange: string | undefined): [number, number] {
  if (contentRange === undefined) return [0, Number.POSITIVE_INFINITY]
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(contentRange) ?? []
  return [
    Number(start ?? Number.NaN),
    total === undefined || total === '*' ? Number.POSITIVE_INFINITY : Number(total),
  ]
}

interface ObjectsAnswer {
  Contents?:
    | { Key?: string | undefined; Size?: number | undefined; LastModified?: Date | undefined }[]
    | undefined
  IsTruncated?: boolean | undefined
  NextContinuationToken?: string | undefined
}

/** A page of a bucket's objects; their keys are what follows `prefix`. */
export function objectPage(answer: ObjectsAnswer, prefix: string): Page<RemoteObject> {
  const items = (answer.Contents ?? []).map(({ Key = '', Size = 0, LastModified }) => ({
    key: Key.slice(prefix.length),
    size: Size,
    modifiedMs: LastModified?.getTime() ?? Number.POSITIVE_INFINITY,
  }))
  return { items, next: nextPage(answer.IsTruncated, answer.NextContinuationToken) }
}

interface UploadsAnswer {
  Uploads?:
    | { Key?: string | undefined; UploadId?: string | undefined; Initiated?: Date | undefined }[]
    | undefined
  IsTruncated?: boolean | undefined
  NextKeyMarker?: string | undefined
  NextUploadIdMarker?: string | undefined
}

/** A page of a bucket's unfinished uploads; their keys are what follows `prefix`. */
export function uploadPage(answer: UploadsAnswer, prefix: string): Page<RemoteUpload> {
  const items = (answer.Uploads ?? []).map(({ Key = '', UploadId = '', Initiated }) => ({
    key: Key.slice(prefix.length),
    id: UploadId,
    begunMs: Initiated?.getTime() ?? Number.POSITIVE_INFINITY,
  }))
  const { NextKeyMarker, NextUploadIdMarker = '' } = answer
  const marker = NextKeyMarker === undefined ? undefined : `${NextKeyMarker}\n${NextUploadIdMarker}`
  return { items, next: nextPage(answer.IsTruncated, marker) }
}

/** The two markers that a page of uploads begins after. A key holds no line feed, so one divides them. */
export function uploadMarkers(next: string | undefined): string[] {
  return next?.split('\n') ?? []
}

/** Where a list goes on, undefined at its end. An endless one would be worse than a failed one. */
function nextPage(isTruncated: boolean | undefined, next: string | undefined): string | undefined {
  if (isTruncated !== true) return undefined
  if (next === undefined || next === '') throw wrongAnswer('does not say where a list goes on')
  return next
}

export function wrongAnswer(what: string): CellError {
  return new CellError('object_store_error', `The object store ${what}.`)
}
