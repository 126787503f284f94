import * as z from 'zod'
import type { CellErrorCode } from '../../../src/errors.ts'
import { noted } from '../../../src/service/json/schema-notes.ts'

/** Of a listing. */
export const PAGE_QUERY = {
  cursor: noted(z.string(), { description: 'next_cursor of the page before.' }),
  limit: noted(z.int().min(1), {
    description: 'How many entries the page may have; at most limits.pageMax.',
  }),
}

/** Codes of what changes a cell. */
export const WRITES: readonly CellErrorCode[] = ['quota_exceeded']

/** Codes of what puts entries. */
export const PUTS: readonly CellErrorCode[] = [...WRITES, 'invalid_key', 'invalid_ttl', 'value_too_large']
/** Codes of what adds to counters. */
export const INCREMENTS: readonly CellErrorCode[] = [
  ...WRITES,
  'invalid_key',
  'invalid_ttl',
  'not_an_integer',
  'integer_overflow',
]
