import fs from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { CellError } from '../../errors.ts'
import type { Script } from './run-script.ts'

/** In place of a file's name. */
export const STANDARD_INPUT = '-'

/** @throws `invalid_request` if there is none, or it is not UTF-8, and what reading it throws */
export async function readScript(file: string): Promise<Script> {
  if (file !== STANDARD_INPUT) {
    if (!fs.existsSync(file)) throw new CellError('invalid_request', `There is no file ${file}.`)
    return { file, text: decode(fs.readFileSync(file), file) }
  }
  return { file: undefined, text: decode(await buffer(process.stdin), 'Standard input') }
}

/** Half of a character must not become another one in the cell. */
function decode(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new CellError('invalid_request', `${name} is not UTF-8.`, { field: 'file' })
  }
}
