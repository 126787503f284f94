import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

interface FieldProps {
  label: string
  value: string
  onInput: (value: string) => void
  hint?: ComponentChildren
  /** What is wrong with the value. */
  fault?: string | undefined
  type?: 'text' | 'password' | 'number' | 'datetime-local'
  placeholder?: string
  /** Lines; more than one makes it a text area. */
  lines?: number
  isCode?: boolean
  isRequired?: boolean
  isDisabled?: boolean
  step?: number
  min?: string
  max?: string
  autocomplete?: string
}

/** A labelled input, with a hint below it that screen readers read too. */
export function Field(props: FieldProps) {
  const id = useId()
  const { label, value, hint, fault, lines = 1, type = 'text', placeholder, step, min, max } = props
  const input = {
    id,
    value,
    class: props.isCode ? 'code' : '',
    disabled: props.isDisabled ?? false,
    required: props.isRequired ?? false,
    spellcheck: false,
    autocomplete: props.autocomplete ?? 'off',
    'aria-invalid': fault !== undefined,
    'aria-describedby': `${id}-hint`,
    ...(placeholder === undefined ? {} : { placeholder }),
    onInput: (event: { currentTarget: { value: string } }) => props.onInput(event.currentTarget.value),
  }
  const bounds = {
    ...(step === undefined ? {} : { step }),
    ...(min === undefined ? {} : { min }),
    ...(max === undefined ? {} : { max }),
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {lines > 1 ? (
        <textarea {...input} rows={lines} />
      ) : (
        <input {...input} {...bounds} type={type as 'text'} />
      )}
      <p class={fault === undefined ? 'hint' : 'hint fault'} id={`${id}-hint`}>
        {fault ?? hint}
      </p>
    </div>
  )
}

interface ChoiceProps<T extends string> {
  label: string
  value: T
  options: readonly (readonly [value: T, name: string])[]
  onChange: (value: T) => void
  hint?: string
}

/** A labelled choice of few. */
export function Choice<T extends string>({ label, value, options, onChange, hint }: ChoiceProps<T>) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        aria-describedby={`${id}-hint`}
        onChange={(event) => onChange(event.currentTarget.value as T)}
      >
        {options.map(([each, name]) => (
          <option key={each} value={each}>
            {name}
          </option>
        ))}
      </select>
      <p class="hint" id={`${id}-hint`}>
        {hint}
      </p>
    </div>
  )
}

/** A box to tick. */
export function Tick(props: { label: string; isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <label class="tick">
      <input
        type="checkbox"
        checked={props.isOn}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      {props.label}
    </label>
  )
}
