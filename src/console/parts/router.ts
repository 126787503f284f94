import { useEffect, useState } from 'preact/hooks'

/** The page's own addresses stand behind the `#`: the server has one page. `#/cells/{id}/sql` is `['cells', id, 'sql']`. */
export function useRoute(): readonly string[] {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const changed = () => setHash(location.hash)
    addEventListener('hashchange', changed)
    // It may have changed since it was drawn: this comes later.
    changed()
    return () => removeEventListener('hashchange', changed)
  }, [])
  return segmentsOf(hash)
}

export function hrefTo(...route: readonly string[]): string {
  return `#/${route.map(encodeURIComponent).join('/')}`
}

export function goTo(...route: readonly string[]): void {
  location.hash = hrefTo(...route)
}

function segmentsOf(hash: string): readonly string[] {
  const segments = hash.replace(/^#\/?/, '').split('/')
  return segments.filter((each) => each !== '').map(decode)
}

/** Somebody may have typed it. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
