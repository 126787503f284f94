import { z } from 'zod'
import { noted } from '../../service/json/schema-notes.ts'

/** The parameters of every listing that is cut into pages. */
export const page = {
  cursor: noted(z.string(), { description: 'next_cursor of the page before.' }),
  limit: noted(z.int().min(1), {
    description: 'How many entries the page may have; at most limits.pageMax.',
  }),
}
