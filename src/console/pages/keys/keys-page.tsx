export function KeysPage() {
  return <p>later</p>
}
