import { SQLite, sql } from '@codemirror/lang-sql'
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { Compartment, EditorState, Prec, StateEffect, StateField } from '@codemirror/state'
import { Decoration, type DecorationSet, EditorView, keymap } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { basicSetup } from 'codemirror'

/** A text that is edited, in CodeMirror or without it. */
export interface Editor {
  text(): string
  /** What is selected; empty if nothing is. */
  selected(): { text: string; from: number }
  setText(text: string): void
  setTables(tables: Readonly<Record<string, readonly string[]>>): void
  /** Marks what is wrong; nothing with undefined. */
  mark(range: { from: number; to: number } | undefined): void
  focus(): void
  close(): void
}

export interface EditorOptions {
  label: string
  text: string
  onChange: (text: string) => void
  onRun: () => void
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--bad)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
])

const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--ground)', fontSize: '13px', height: '100%' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--code)', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)', minHeight: '104px' },
  '.cm-gutters': {
    color: 'var(--muted)',
    backgroundColor: 'var(--raised)',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'transparent' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 25%, transparent)',
  },
  '.cm-fault': { textDecoration: 'underline wavy var(--bad)', backgroundColor: 'var(--bad-tint)' },
  '.cm-tooltip': { color: 'var(--text)', backgroundColor: 'var(--raised)', border: '1px solid var(--edge)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    color: 'var(--on-accent)',
    backgroundColor: 'var(--accent)',
  },
  '.cm-panels': { color: 'var(--text)', backgroundColor: 'var(--raised)' },
})

const setFault = StateEffect.define<{ from: number; to: number } | undefined>()
const faults = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    const effect = transaction.effects.find((each) => each.is(setFault))
    if (effect === undefined) return transaction.docChanged ? Decoration.none : marks
    const range = effect.value
    if (range === undefined || range.to <= range.from) return Decoration.none
    return Decoration.set(Decoration.mark({ class: 'cm-fault' }).range(range.from, range.to))
  },
  provide: (field) => EditorView.decorations.from(field),
})

/**
 * What is typed over a selection. Chromium would keep the look of what was selected by a style attribute, which the policy
 * of the page refuses, with a report.
 */
const typedOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { data, inputType, isComposing } = event
    const { from, to } = selectionIn(view)
    if (inputType !== 'insertText' || data === null || from === to || isComposing) return false
    const insert = () =>
      view.state.update({
        changes: { from, to, insert: data },
        selection: { anchor: from + data.length },
        userEvent: 'input.type',
      })
    const handlers = view.state.facet(EditorView.inputHandler)
    if (!handlers.some((handle) => handle(view, from, to, data, insert))) view.dispatch(insert())
    event.preventDefault()
    return true
  },
})

/** What is selected in the document: the editor hears of it a moment later. */
function selectionIn(view: EditorView): { from: number; to: number } {
  // Only Chromium's shadow roots have it.
  const selection = (view.root as { getSelection?: () => Selection | null }).getSelection?.()
  if (
    selection?.anchorNode == null ||
    selection.focusNode === null ||
    !view.contentDOM.contains(selection.anchorNode)
  )
    return view.state.selection.main
  const ends = [
    view.posAtDOM(selection.anchorNode, selection.anchorOffset),
    view.posAtDOM(selection.focusNode, selection.focusOffset),
  ]
  return { from: Math.min(...ends), to: Math.max(...ends) }
}

/**
 * CodeMirror, in a shadow root: there its styles are sheets that it constructs, which the policy of the page allows. In the
 * page itself they would be style elements.
 */
export function openCodeEditor(host: HTMLElement, { label, text, onChange, onRun }: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  const language = new Compartment()
  const ofTables = (tables: Readonly<Record<string, readonly string[]>>) =>
    sql({ dialect: SQLite, schema: tables as Record<string, string[]>, upperCaseKeywords: true })
  const run = () => {
    onRun()
    return true
  }
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        Prec.highest(keymap.of([{ key: 'Mod-Enter', run }])),
        basicSetup,
        EditorView.lineWrapping,
        language.of(ofTables({})),
        theme,
        syntaxHighlighting(colours),
        faults,
        typedOver,
        EditorView.contentAttributes.of({ 'aria-label': label }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.doc.toString())
        }),
      ],
    }),
  })
  const replace = (insert: string) =>
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert } })
  return {
    text: () => view.state.doc.toString(),
    selected: () => {
      const { from, to } = view.state.selection.main
      return { text: view.state.sliceDoc(from, to), from }
    },
    setText: replace,
    setTables: (tables) => view.dispatch({ effects: language.reconfigure(ofTables(tables)) }),
    mark: (range) => view.dispatch({ effects: setFault.of(range) }),
    focus: () => view.focus(),
    close: () => view.destroy(),
  }
}
