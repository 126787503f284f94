import type { AnswerOf, Client, operations } from '../../../client/index.ts'

type Page = AnswerOf<operations['listBackups']>
export type Version = Page['backups'][number]

/** Milliseconds since 1970. */
export interface Span {
  from: number
  to: number
}

/** What of a cell's past is stored. */
export interface CellHistory {
  /** The newest first. */
  versions: Version[]
  /** Every moment of these can be restored. The oldest first; between them are gaps. */
  spans: Span[]
}

/** Versions of a page of the server's list: the most that it gives. */
const PAGE = 1_000

export async function loadHistory(client: Client, id: string, signal: AbortSignal): Promise<CellHistory> {
  const versions: Version[] = []
  const spans: Span[] = []
  let cursor: string | undefined
  do {
    const page: Page = await client.listBackups(
      { id, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) },
      { signal },
    )
    versions.push(...page.backups)
    spans.push(...page.restorable.map(({ from, to }) => ({ from: Date.parse(from), to: Date.parse(to) })))
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  return { versions, spans: joined(spans) }
}

/** In order, those that touch as one: a page of the list knows of its own versions only. */
function joined(spans: readonly Span[]): Span[] {
  const joint: Span[] = []
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = joint.at(-1)
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to)
    else joint.push({ ...span })
  }
  return joint
}

/** The first moment of which anything is stored; undefined if nothing is. */
export function beginningOf({ versions, spans }: CellHistory): number | undefined {
  const oldest = versions.at(-1)
  const times = [
    ...(oldest === undefined ? [] : [Date.parse(oldest.created_at)]),
    ...spans.slice(0, 1).map(({ from }) => from),
  ]
  return times.length === 0 ? undefined : Math.min(...times)
}

/** Without what all versions of the cell have in common. */
export function shortName(version: string): string {
  return version.slice(version.lastIndexOf('/') + 1)
}
