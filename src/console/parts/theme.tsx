import { useState } from 'preact/hooks'

const KEPT = 'cellstore-theme'
const THEMES = ['system', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

apply(kept())

/** Light, dark, or what the system says. */
export function ThemeButton() {
  const [theme, setTheme] = useState(kept)
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] as Theme
  const change = () => {
    localStorage.setItem(KEPT, next)
    apply(next)
    setTheme(next)
  }
  return (
    <button type="button" class="quiet" onClick={change} title={`Change to ${next}`}>
      Theme: {theme}
    </button>
  )
}

function kept(): Theme {
  const text = localStorage.getItem(KEPT)
  return THEMES.find((theme) => theme === text) ?? 'system'
}

function apply(theme: Theme): void {
  document.documentElement.dataset['theme'] = theme
}
