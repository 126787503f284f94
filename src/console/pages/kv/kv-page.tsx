export function KvPage(_: {
  id: string
  sizeBytes?: number | undefined
  onChanged?: () => void
  name?: string | null
  isDeleted?: boolean
}) {
  return <p>later</p>
}
