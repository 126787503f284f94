import { useEffect, useState } from 'preact/hooks'

/** The page's own addresses stand behind the `#`: the server has one page. `#/cells/{id}/sql` is `['cells', id, 'sql']`. */
export function useRoute(): readonly string[] {
  const [route, setRoute] = useState(read)
  useEffect(() => {
    const changed = () => setRoute(read())
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  return route
}

export function hrefTo(...route: readonly string[]): string {
  return `#/${route.map(encodeURIComponent).join('/')}`
}

export function goTo(...route: readonly string[]): void {
  location.hash = hrefTo(...route)
}

function read(): readonly string[] {
  const segments = location.hash.replace(/^#\/?/, '').split('/')
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
