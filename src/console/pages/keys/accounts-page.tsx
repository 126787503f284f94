export function AccountsPage() {
  return <p>later</p>
}
