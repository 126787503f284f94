import { useState } from 'preact/hooks'
import { after } from '../session/browser-clock.ts'

const SHOWN_MS = 1_500

/** Copies a text, and says that it has. Where the browser refuses, as without TLS, it takes the way that always works. */
export function CopyButton({
  label,
  text,
  isPrimary,
}: {
  label: string
  text: () => string
  isPrimary?: boolean
}) {
  const [said, setSaid] = useState<string>()
  const copy = async () => {
    const copied = await copyText(text())
    setSaid(copied ? 'Copied' : 'Not copied: the browser does not allow it')
    after(SHOWN_MS, () => setSaid(undefined))
  }
  return (
    <button type="button" class={isPrimary ? 'primary' : 'quiet'} onClick={() => void copy()}>
      <span aria-live="polite">{said ?? label}</span>
    </button>
  )
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    area.className = 'off-screen'
    // A modal dialog makes all outside of it inert.
    const place = document.querySelector('dialog[open]') ?? document.body
    place.append(area)
    area.select()
    const copied = document.execCommand('copy')
    area.remove()
    return copied
  }
}
