/**
 * `word` is a keyword or a bare identifier, `quoted` an identifier in "…", […] or `…`, `string` a '…' literal (which SQLite
 * also takes for an identifier wherever only a name can stand), `operator` every punctuation mark. `illegal` is what
 * SQLite calls an unrecognized token: no statement with one is ever prepared.
 */
export type SqlTokenKind =
  | 'word'
  | 'quoted'
  | 'string'
  | 'blob'
  | 'number'
  | 'variable'
  | 'operator'
  | 'illegal'

export interface SqlToken {
  readonly kind: SqlTokenKind
  /** As written, with its quotes. */
  readonly text: string
  /** Where it starts in the SQL text, in UTF-16 code units. */
  readonly start: number
}

/**
 * The name that a token can stand for, in lower case, without its quotes; undefined for a token that is never a name.
 * A doubled quote inside stays doubled, so this is for comparing with names that hold no quote.
 */
export function nameOf(token: SqlToken | undefined): string | undefined {
  switch (token?.kind) {
    case 'word':
      return asciiLower(token.text)
    case 'quoted':
    case 'string':
      return asciiLower(token.text.slice(1, Math.min(token.text.length - 1, NAME_LENGTH_MAX + 2)))
    default:
      return undefined
  }
}

/** Longer than any name that is compared with: a long literal is not folded as a whole. */
const NAME_LENGTH_MAX = 64

/** As {@link nameOf}, as SQLite reads it: whole, and a doubled quote stands for one. For comparing with a tenant's own names. */
export function wholeNameOf(token: SqlToken | undefined): string | undefined {
  if (token?.kind !== 'quoted' && token?.kind !== 'string') return nameOf(token)
  const quote = token.text.charAt(0)
  const inner = token.text.slice(1, -1)
  return asciiLower(quote === '[' ? inner : inner.replaceAll(quote + quote, quote))
}

/**
 * Letter case as SQLite folds it: ASCII only. JavaScript's own folding would make a `k` of the Kelvin sign; it is left to
 * texts that are all ASCII, where it is several times as fast as replacing letters.
 */
function asciiLower(text: string): string {
  return isAscii(text) ? text.toLowerCase() : text.replace(/[A-Z]+/g, (run) => run.toLowerCase())
}

/** As {@link asciiLower}, the other way. */
export function asciiUpper(text: string): string {
  return isAscii(text) ? text.toUpperCase() : text.replace(/[a-z]+/g, (run) => run.toUpperCase())
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) >= 128) return false
  }
  return true
}
