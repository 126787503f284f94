/**
 * Whether the client asks for an answer before the work is done: RFC 7240, `Prefer: respond-async`. Preferences are separated
 * by commas, and a quoted value may hold any text.
 */
export function prefersAsync(header: string | undefined): boolean {
  if (header === undefined) return false
  // A quote that nothing closes takes the rest. So it always matches, and no header is read again from each of its quotes.
  const preferences = header.replaceAll(/"(?:[^"\\]|\\.?)*(?:"|$)/g, '""').split(',')
  return preferences.some((each) => /^\s*respond-async\s*(?:=\s*(?:""\s*)?)?(?:;|$)/i.test(each))
}
