import { createCipheriv, createDecipheriv, createHash } from 'node:crypto'
import { notACursor } from './paging.ts'

const ALGORITHM = 'aes-128-ecb'
const BLOCK_BYTES = 16
/** The first half of the block is 0: hardly any other text has that once it is decrypted. */
const NUMBER_AT = 8

/**
 * Cursors of a listing that is sorted by row numbers. The rows of all accounts share these numbers: a cursor that showed them would tell an
 * account how many cells or keys the others make. So they are encrypted, one block each, with a key that only the store knows.
 */
export class RowCursors {
  readonly #key: Buffer

  /**
   * @param secret no account knows it: the store's id
   * @param listing a cursor of another one is refused
   */
  constructor(secret: string, listing: string) {
    this.#key = createHash('sha256').update(`cursor ${listing} ${secret}`).digest().subarray(0, BLOCK_BYTES)
  }

  encode(number: number): string {
    const block = Buffer.alloc(BLOCK_BYTES)
    block.writeBigUInt64BE(BigInt(number), NUMBER_AT)
    const cipher = createCipheriv(ALGORITHM, this.#key, null).setAutoPadding(false)
    return Buffer.concat([cipher.update(block), cipher.final()]).toString('base64url')
  }

  /** @throws `invalid_request` for a cursor that this listing has not returned */
  decode(cursor: string): number {
    const bytes = typeof cursor === 'string' ? Buffer.from(cursor, 'base64url') : Buffer.alloc(0)
    if (bytes.length !== BLOCK_BYTES || bytes.toString('base64url') !== cursor) throw notACursor()
    const decipher = createDecipheriv(ALGORITHM, this.#key, null).setAutoPadding(false)
    const block = Buffer.concat([decipher.update(bytes), decipher.final()])
    const number = Number(block.readBigUInt64BE(NUMBER_AT))
    if (block.readBigUInt64BE(0) !== 0n || !Number.isSafeInteger(number)) throw notACursor()
    return number
  }
}
