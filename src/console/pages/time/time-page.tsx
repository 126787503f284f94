export function TimePage(_: {
  id: string
  sizeBytes?: number | undefined
  onChanged?: () => void
  name?: string | null
  isDeleted?: boolean
}) {
  return <p>later</p>
}
