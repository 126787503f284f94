import { after } from '../session/browser-clock.ts'

/** The browser has begun to read it long before. */
const RELEASE_MS = 60_000

/** Hands a file to the browser's downloads. */
export function saveFile(name: string, content: Blob): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  // A name of a cell may have slashes.
  link.download = name.replaceAll(/[/\\:*?"<>|\p{Cc}]/gu, '_')
  link.click()
  after(RELEASE_MS, () => URL.revokeObjectURL(link.href))
}
