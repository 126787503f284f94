import { createHash } from 'node:crypto'
import fs from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

/** What the build has made of src/console. */
const FOLDER = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../dist/console/' : './console/', import.meta.url),
)

/** Scripts and styles are files of ours, requests go to this server, and nothing is written as text into the page. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>cellstore</title>
<link rel="icon" href="console/icon.svg">
<link rel="stylesheet" href="console/console.css">
<script type="module" src="console/console.js"></script>
<noscript>The console needs JavaScript.</noscript>
<div id="console"></div>
</html>
`

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#3b82d6" d="M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2z"/><path fill="#f0a53a" d="M9 9h5v5H9z"/></svg>`

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
}
const NAMED_BY_CONTENT = /-[0-9A-Z]{8}\.js$/

interface ConsoleFile {
  type: string
  bytes: Buffer
  etag: string
  cacheControl: string
  /** Made with the first request that takes it. */
  gzipped?: Promise<Buffer>
}

/** Answers a request if it is for a file of the console. @returns false if it is not */
export type ConsoleListener = (request: IncomingMessage, response: ServerResponse) => boolean

/**
 * The console at `/console`: a page that uses the HTTP interface as any client does, and so needs nothing else of the server.
 *
 * @throws if the build has no console
 */
export function consoleListener(): ConsoleListener {
  const files = readFiles()
  return (request, response) => {
    const target = request.url ?? ''
    if (!target.startsWith('/console')) return false
    const [name = ''] = target.split('?')
    const { method, headers } = request
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if ((method !== 'GET' && method !== 'HEAD') || hasBody) return false
    // Relative, as the links of the page are: the server may be below a path of a proxy.
    if (name === '/console/') response.writeHead(308, { Location: '../console' }).end()
    else {
      const file = files.get(name)
      if (file === undefined) return false
      void send(file, request, response)
    }
    return true
  }
}

function readFiles(): Map<string, ConsoleFile> {
  const names = fs.readdirSync(FOLDER).filter((name) => path.extname(name) in TYPES)
  return new Map([
    ['/console', fileOf('text/html; charset=utf-8', Buffer.from(PAGE))],
    ['/console/icon.svg', fileOf('image/svg+xml', Buffer.from(ICON))],
    ...names.map((name): [string, ConsoleFile] => {
      const bytes = fs.readFileSync(path.join(FOLDER, name))
      return [
        `/console/${name}`,
        fileOf(TYPES[path.extname(name)] as string, bytes, NAMED_BY_CONTENT.test(name)),
      ]
    }),
  ])
}

function fileOf(type: string, bytes: Buffer, isNamedByContent = false): ConsoleFile {
  return {
    type,
    bytes,
    etag: `"${createHash('sha256').update(bytes).digest('base64url')}"`,
    cacheControl: isNamedByContent ? 'max-age=31536000, immutable' : 'no-cache',
  }
}

async function send(file: ConsoleFile, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const takesGzip = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
  if (takesGzip) file.gzipped ??= promisify(gzip)(file.bytes)
  const isKnown = request.headers['if-none-match'] === file.etag
  const body = takesGzip ? await (file.gzipped as Promise<Buffer>) : file.bytes
  response.writeHead(isKnown ? 304 : 200, {
    'Content-Type': file.type,
    'Content-Security-Policy': POLICY,
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': file.cacheControl,
    Vary: 'Accept-Encoding',
    ETag: file.etag,
    ...(isKnown ? {} : { 'Content-Length': body.length }),
    ...(takesGzip && !isKnown ? { 'Content-Encoding': 'gzip' } : {}),
  })
  response.end(isKnown || request.method === 'HEAD' ? undefined : body)
}
