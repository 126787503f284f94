import { CellError, type CellErrorCode } from '../../../errors.ts'
import { objectExists } from '../object-store.ts'

/** The HTTP status of a failed request, or undefined without an answer. It also takes an error of {@link s3Failure}. */
export function s3Status(error: unknown): number | undefined {
  const metadata = member(error instanceof CellError ? error.cause : error, '$metadata')
  const status = member(metadata, 'httpStatusCode')
  return typeof status === 'number' ? status : undefined
}

/** S3's name of the failure, such as `NoSuchKey`, or Node's, such as `TimeoutError`. It also takes an error of {@link s3Failure}. */
export function s3ErrorName(error: unknown): string {
  const name = member(error instanceof CellError ? error.cause : error, 'name')
  return typeof name === 'string' && /^[A-Za-z0-9]{1,60}$/.test(name) ? name : ''
}

/**
 * Explains a failed S3 request to users of the store: `object_store_unavailable` if a later try may help,
 * `object_store_error` if a person must act, and `object_exists` for a failed condition. The message says what to check.
 * It holds nothing of the request, and so no credential.
 */
export function s3Failure(error: unknown): CellError {
  if (error instanceof CellError) return error
  const name = s3ErrorName(error)
  const status = s3Status(error)
  // Old versions of MinIO answer a failed `If-None-Match: *` with 304.
  if (name === 'PreconditionFailed' || status === 412 || status === 304) return objectExists(error)
  const [code, message] = explainName(name) ?? explainStatus(status, name) ?? explainNoAnswer(error)
  return new CellError(code, message, { cause: error })
}

type Explanation = [CellErrorCode, string]

function explainName(name: string): Explanation | undefined {
  switch (name) {
    case 'NoSuchBucket':
    case 'InvalidBucketName':
      return [
        'object_store_error',
        'The bucket does not exist. Check its name, the endpoint and the region, or create it.',
      ]
    case 'InvalidAccessKeyId':
    case 'SignatureDoesNotMatch':
    case 'InvalidToken':
    case 'ExpiredToken':
      return [
        'object_store_error',
        'The object store does not accept the credentials. Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.',
      ]
    case 'CredentialsProviderError':
      return [
        'object_store_error',
        'cellstore found no credentials for the object store. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.',
      ]
    case 'RequestTimeTooSkewed':
      return [
        'object_store_error',
        "This machine's clock differs too much from the object store's. Correct it.",
      ]
    case 'AuthorizationHeaderMalformed':
      return ['object_store_error', 'The bucket is in another region. Check the region and the endpoint.']
    case 'ConditionalRequestConflict':
    case 'OperationAborted':
      return ['object_store_unavailable', 'Another writer is storing the same object.']
    case 'SlowDown':
      return ['object_store_unavailable', 'The object store gets too many requests (SlowDown).']
    case 'TimeoutError':
    case 'RequestTimeout':
      return ['object_store_unavailable', 'The object store did not answer in time.']
    default:
      return undefined
  }
}

function explainStatus(status: number | undefined, name: string): Explanation | undefined {
  if (status === undefined) return undefined
  const answer = `${status}${name === '' ? '' : ` ${name}`}`
  if (status === 403 || status === 401) {
    return [
      'object_store_error',
      `The object store refused access (${answer}). Check that the credentials may list the bucket, and read, write and delete under the prefix.`,
    ]
  }
  if (status === 501 || status === 405) {
    return ['object_store_error', `The object store does not implement this request (${answer}).`]
  }
  if (status === 301 || status === 307) {
    return [
      'object_store_error',
      `The bucket is in another region, or the endpoint redirects (${answer}). Check the region and the endpoint.`,
    ]
  }
  if (status >= 500 || status === 429 || status === 408) {
    return ['object_store_unavailable', `The object store cannot serve the request now (${answer}).`]
  }
  return ['object_store_error', `The object store answered with an error (${answer}).`]
}

function explainNoAnswer(error: unknown): Explanation {
  const code = member(error, 'code')
  if (typeof code !== 'string') {
    return member(error, 'message') === 'Region is missing'
      ? ['object_store_error', 'The region of the bucket is not set. Set it in the URL or as AWS_REGION.']
      : ['object_store_error', 'cellstore does not understand the answer of the object store.']
  }
  if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/.test(code)) {
    return [
      'object_store_error',
      `This machine does not trust the certificate of the object store (${code}).`,
    ]
  }
  if (code.startsWith('HPE_'))
    return ['object_store_error', `The object store does not speak HTTP (${code}).`]
  return ['object_store_unavailable', `cellstore cannot reach the object store (${code}).`]
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
