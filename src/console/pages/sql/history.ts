/** How many texts are kept of a cell. */
const KEPT = 50

/** What was run in a cell, the newest first. It stays in this browser, until it is cleared. */
export function historyOf(id: string): readonly string[] {
  try {
    return JSON.parse(localStorage.getItem(placeOf(id)) ?? '[]') as string[]
  } catch {
    return []
  }
}

export function remember(id: string, text: string): readonly string[] {
  const texts = [text, ...historyOf(id).filter((each) => each !== text)].slice(0, KEPT)
  try {
    localStorage.setItem(placeOf(id), JSON.stringify(texts))
  } catch {
    // It has no room, or keeps nothing.
  }
  return texts
}

export function clearHistory(id: string): void {
  localStorage.removeItem(placeOf(id))
}

function placeOf(id: string): string {
  return `cellstore-sql-${id}`
}
