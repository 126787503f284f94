import { open } from 'node:fs/promises'
import { CellError } from '../../errors.ts'

/** Of a database file, as sqlite.org/fileformat2 describes it. */
const MAGIC = Buffer.from('SQLite format 3\0')
const HEADER_BYTES = 100
const PAGE_SIZE_AT = 16
/** The read and write versions: 1 for a rollback journal, 2 for WAL. */
const VERSIONS_AT = 18
const ENCODING_AT = 56
const UTF_8 = 1

export type JournalMode = 'wal' | 'rollback'

/**
 * Sets which journal the next connection to a closed database uses. The file says nothing else about it.
 *
 * @returns bytes of the file
 */
export async function setJournalMode(file: string, mode: JournalMode): Promise<number> {
  await using handle = await open(file, 'r+')
  await handle.write(Buffer.alloc(2, mode === 'wal' ? 2 : 1), 0, 2, VERSIONS_AT)
  return (await handle.stat()).size
}

/**
 * Checks the first bytes of a file that should be a database, before SQLite sees it.
 *
 * @throws `invalid_database` for a file that is none, for one of another encoding than UTF-8, and for half of a page
 */
export async function checkHeader(file: string): Promise<void> {
  await using handle = await open(file, 'r')
  const header = Buffer.alloc(HEADER_BYTES)
  const { bytesRead } = await handle.read(header, 0, HEADER_BYTES, 0)
  if (bytesRead < HEADER_BYTES || !header.subarray(0, MAGIC.length).equals(MAGIC))
    throw invalidDatabase('The file is not a SQLite database, or it is encrypted')
  const stored = header.readUInt16BE(PAGE_SIZE_AT)
  const pageSize = stored === 1 ? 65_536 : stored
  const { size } = await handle.stat()
  if (pageSize < 512 || (pageSize & (pageSize - 1)) !== 0 || size % pageSize !== 0)
    throw invalidDatabase('The file is cut off, or damaged: it does not end with a whole page')
  const encoding = header.readUInt32BE(ENCODING_AT)
  if (encoding > UTF_8)
    throw invalidDatabase(
      'The text of the database is UTF-16, and a cell is UTF-8: make it with PRAGMA encoding = "UTF-8"',
    )
}

/** @param why a clause, without its full stop */
export function invalidDatabase(why: string, cause?: unknown): CellError {
  return new CellError('invalid_database', `${why}. Nothing was imported.`, { cause })
}
