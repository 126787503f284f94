import type { AnswerOf, Client, operations } from '../../../client/index.ts'

/** A cell as lists have it. */
export type ListedCell = AnswerOf<operations['listCells']>['databases'][number]

/** Rows of a page of the server's list: the most that it gives. */
const PAGE = 1_000

/** All cells of the account, or all deleted ones. @param onPage hears what has come so far */
export async function loadCells(
  client: Client,
  {
    deleted,
    signal,
    onPage,
  }: { deleted: boolean; signal: AbortSignal; onPage: (cells: ListedCell[]) => void },
): Promise<ListedCell[]> {
  const cells: ListedCell[] = []
  let cursor: string | undefined
  do {
    const page = await client.listCells(
      { limit: PAGE, ...(deleted ? { deleted } : {}), ...(cursor === undefined ? {} : { cursor }) },
      { signal },
    )
    cells.push(...page.databases)
    cursor = page.next_cursor ?? undefined
    if (cursor !== undefined) onPage([...cells])
  } while (cursor !== undefined)
  return cells
}

/** Those whose name or id has the text; all for an empty one. */
export function cellsWith(cells: readonly ListedCell[], text: string): readonly ListedCell[] {
  const wanted = text.trim().toLowerCase()
  if (wanted === '') return cells
  return cells.filter(
    ({ id, name }) => id.includes(wanted) || (name?.toLowerCase().includes(wanted) ?? false),
  )
}
