import { useEffect, useRef, useState } from 'preact/hooks'
import type { Editor, EditorOptions } from './code-editor.ts'

/** The SQL editor: a plain text area until CodeMirror is loaded, and if it can't be. */
export function SqlEditor(props: EditorOptions & { onOpen: (editor: Editor) => void }) {
  const host = useRef<HTMLDivElement>(null)
  const area = useRef<HTMLTextAreaElement>(null)
  const [isCode, setCode] = useState(false)
  const given = useRef(props)
  given.current = props
  useEffect(() => {
    let editor = plainEditor(area.current as HTMLTextAreaElement)
    let isGone = false
    props.onOpen(editor)
    const load = async () => {
      const { openCodeEditor } = await import('./code-editor.ts')
      if (isGone) return
      const hadFocus = document.activeElement === area.current
      editor = openCodeEditor(host.current as HTMLElement, {
        label: props.label,
        text: editor.text(),
        onChange: (text) => given.current.onChange(text),
        onRun: () => given.current.onRun(),
      })
      setCode(true)
      given.current.onOpen(editor)
      if (hadFocus) editor.focus()
    }
    // The text area does without it.
    load().catch(() => {})
    return () => {
      isGone = true
      editor.close()
    }
  }, [])
  return (
    <div class="editor">
      <div ref={host} class={isCode ? 'editor-code' : 'editor-code none'} />
      {!isCode && (
        <textarea
          ref={area}
          class="code"
          aria-label={props.label}
          spellcheck={false}
          onInput={(event) => props.onChange(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
            event.preventDefault()
            props.onRun()
          }}
        />
      )}
    </div>
  )
}

function plainEditor(area: HTMLTextAreaElement): Editor {
  return {
    text: () => area.value,
    selected: () => ({
      text: area.value.slice(area.selectionStart, area.selectionEnd),
      from: area.selectionStart,
    }),
    setText: (text) => {
      area.value = text
    },
    setTables: () => {},
    mark: (range) => {
      if (range !== undefined) area.setSelectionRange(range.from, range.to)
    },
    focus: () => area.focus(),
    close: () => {},
  }
}
