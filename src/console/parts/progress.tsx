/** How far long work is, and what ends it. Without a total it shows that it goes on. */
export function Progress(props: {
  label: string
  done?: number | undefined
  total?: number | null | undefined
  onCancel?: () => void
}) {
  const { label, done, total, onCancel } = props
  const known = done !== undefined && total != null && total > 0
  return (
    <div class="progress" role="status">
      <span>{label}</span>
      {known ? <progress value={done} max={total} aria-label={label} /> : <progress aria-label={label} />}
      {onCancel !== undefined && (
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      )}
    </div>
  )
}
