import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { Failure } from './failure.tsx'

interface DialogProps {
  title: string
  /** What the button says that does it; without one there is nothing to do but to close. */
  action?: string
  isDangerous?: boolean
  isRunning?: boolean
  /** Whether the input is such that it can be done. */
  isReady?: boolean
  isWide?: boolean
  error?: unknown
  onSubmit?: () => void
  /** Also ends work under way. */
  onClose: () => void
  children: ComponentChildren
}

/** A modal dialog with a form. Escape closes it, Enter submits it, and the browser keeps the focus inside. */
export function Dialog(props: DialogProps) {
  const element = useRef<HTMLDialogElement>(null)
  const title = useId()
  // Before anything else is typed.
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    const first = element.current?.querySelector<HTMLElement>('[data-first], input, textarea, select')
    first?.focus()
    if (first instanceof HTMLInputElement) first.select()
    // So that the browser gives the focus back to what had it.
    return () => dialog?.close()
  }, [])
  const { isReady = true, isRunning = false } = props
  return (
    <dialog
      ref={element}
      class={props.isWide ? 'wide' : ''}
      aria-labelledby={title}
      onCancel={(event) => {
        event.preventDefault()
        props.onClose()
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (isReady && !isRunning) props.onSubmit?.()
        }}
      >
        <h2 id={title}>{props.title}</h2>
        <div class="dialog-body">
          {props.children}
          <Failure error={props.error} />
        </div>
        <div class="dialog-buttons">
          <button type="button" onClick={props.onClose}>
            {props.action === undefined ? 'Close' : 'Cancel'}
          </button>
          {props.action !== undefined && (
            <button
              type="submit"
              class={props.isDangerous ? 'primary dangerous' : 'primary'}
              disabled={!isReady || isRunning}
            >
              {isRunning ? 'Working…' : props.action}
            </button>
          )}
        </div>
      </form>
    </dialog>
  )
}
