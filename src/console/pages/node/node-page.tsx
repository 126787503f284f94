export function NodePage() {
  return <p>later</p>
}
