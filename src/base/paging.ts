import { CellError } from '../errors.ts'
import { turnOfTheLoop } from './clock.ts'
import { judgedByReader, maybe, type Shape } from './options/option-shapes.ts'

const LIMIT_DEFAULT = 100

/** How the options of every listing page. Left out or undefined: the first page, of the usual length. */
export const PAGING: Shape<{ cursor?: string | undefined; limit?: number | undefined }> = {
  cursor: maybe(judgedByReader('a cursor')),
  limit: maybe(judgedByReader('a whole number')),
}

/**
 * How many entries a page may have.
 *
 * @param byDefault where the caller does not say; never more than `max`
 * @throws `invalid_request`
 */
export function pageLimit(limit: number | undefined, max: number, byDefault: number = LIMIT_DEFAULT): number {
  if (limit === undefined) return Math.min(byDefault, max)
  if (Number.isInteger(limit) && limit >= 1 && limit <= max) return limit
  throw new CellError('invalid_request', `limit is a whole number from 1 to ${max} (limits.pageMax).`, {
    field: 'limit',
    limit: max,
  })
}

/** @param position where the page ended: what its last entry is sorted by. Callers see an opaque text. */
export function encodeCursor(position: string): string {
  return Buffer.from(position).toString('base64url')
}

/**
 * @param parse returns undefined for a position that this listing can't have
 * @throws `invalid_request` for a cursor that no listing has returned
 */
export function decodeCursor<T>(cursor: string, parse: (position: string) => T | undefined): T {
  const position = typeof cursor === 'string' ? Buffer.from(cursor, 'base64url').toString() : ''
  const parsed = encodeCursor(position) === cursor ? parse(position) : undefined
  if (parsed !== undefined) return parsed
  throw notACursor()
}

export function notACursor(): CellError {
  return new CellError('invalid_request', 'cursor is not one that a listing returned.', { field: 'cursor' })
}

/**
 * Cuts a page from the rows that are left to list.
 *
 * @param rows one more than the limit, if there are that many: then another page follows
 */
export function cutPage<T>(
  rows: readonly T[],
  limit: number,
  cursorOf: (last: T) => string,
): { page: T[]; nextCursor: string | null } {
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  return {
    page,
    nextCursor: last !== undefined && rows.length > limit ? cursorOf(last) : null,
  }
}

/**
 * A page, and with `for await` all entries from it on. The pages that follow are read as they are needed, with a turn of the
 * event loop before each. Each page shows the state of its time.
 */
export type Paged<Page, Entry> = Page & AsyncIterable<Entry>

/** How {@link paged} goes from page to page. */
interface PageReader<Page, Entry> {
  entries(page: Page): readonly Entry[]
  next(cursor: string): Page | Promise<Page>
}

/** @param page the first one, or its promise */
export function paged<Page extends { nextCursor: string | null }, Entry, First extends Page | Promise<Page>>(
  page: First,
  reader: PageReader<Page, Entry>,
): Paged<First, Entry> {
  // Not enumerable, so that the page looks as it does without.
  const value = () => allEntries<Page, Entry>(page, reader)
  return Object.defineProperty(page, Symbol.asyncIterator, { value }) as Paged<First, Entry>
}

async function* allEntries<Page extends { nextCursor: string | null }, Entry>(
  first: Page | Promise<Page>,
  { entries, next }: PageReader<Page, Entry>,
): AsyncGenerator<Entry, void, undefined> {
  let page = await first
  for (;;) {
    yield* entries(page)
    if (page.nextCursor === null) return
    await turnOfTheLoop()
    page = await next(page.nextCursor)
  }
}
