import * as z from 'zod'
import { count } from '../../service/json/answer-fields.ts'
import { noted } from '../../service/json/schema-notes.ts'

export const healthAnswer = z.object({ status: z.literal('ok') })

export const readyAnswer = z.object({
  status: z.literal('ready'),
  damaged_backups: noted(count, {
    description: 'Cells, and the catalog, with backups that proved damaged and no newer proven one.',
  }),
})

export type HealthDocument = z.infer<typeof healthAnswer>
export type ReadyDocument = z.infer<typeof readyAnswer>
