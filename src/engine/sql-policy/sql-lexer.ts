import { asciiUpper, type SqlToken, type SqlTokenKind } from './sql-token.ts'

const BOM = 0xfeff
const [QUOTE, DOUBLE_QUOTE, BACKTICK, BRACKET] = [0x27, 0x22, 0x60, 0x5b]
const [MINUS, SLASH, STAR, DOT, PLUS] = [0x2d, 0x2f, 0x2a, 0x2e, 0x2b]
const [LESS, EQUALS, GREATER, BANG, PIPE] = [0x3c, 0x3d, 0x3e, 0x21, 0x7c]
const [QUESTION, DOLLAR, AT, COLON, HASH] = [0x3f, 0x24, 0x40, 0x3a, 0x23]
const [ZERO, UPPER_E, UPPER_X, UNDERSCORE] = [0x30, 0x45, 0x58, 0x5f]
/** Clears the bit in which an ASCII letter's two cases differ. */
const UPPER_MASK = ~0x20

const DIGIT = 1
const HEX_DIGIT = 2
const ID_CHAR = 4
/** Blank at the start of a token. */
const SPACE = 8
/** Blank after another blank: this set also has the vertical tab, which is illegal at the start of a token. */
const SPACE_AFTER_SPACE = 16
const SINGLE_CHAR_OPERATOR = 32

const CLASSES = characterClasses()

function characterClasses(): Uint8Array {
  const classes = new Uint8Array(128)
  const mark = (characters: string, bits: number) => {
    for (const character of characters) {
      const code = character.charCodeAt(0)
      classes[code] = (classes[code] ?? 0) | bits
    }
  }
  mark('0123456789', DIGIT | HEX_DIGIT | ID_CHAR)
  mark('abcdefABCDEF', HEX_DIGIT)
  mark('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$', ID_CHAR)
  mark(' \t\n\f\r', SPACE | SPACE_AFTER_SPACE)
  mark('\v', SPACE_AFTER_SPACE)
  mark('(),;+*/%&~', SINGLE_CHAR_OPERATOR)
  return classes
}

function isIdChar(code: number): boolean {
  return code >= 128 || ((CLASSES[code] ?? 0) & ID_CHAR) !== 0
}

function hasClass(code: number, bits: number): boolean {
  return code < 128 && ((CLASSES[code] ?? 0) & bits) !== 0
}

/**
 * The tokens of an SQL text, without blanks and comments, read on demand: a caller that needs only the first word pays for
 * only the first word.
 *
 * It splits a text exactly as the SQLite inside better-sqlite3 does (test/engine/sql-policy/sql-lexer.test.ts compares the two),
 * because the SQL policy is only as good as that agreement. Like that build, which omits Tcl variables, it
 * reads `$a(b)` as `$a`, `(`, `b`, `)`. A NUL ends the text.
 */
export class SqlTokens {
  /** The text up to the first NUL, where SQLite stops. */
  readonly sql: string
  readonly #tokens: SqlToken[] = []
  #at = 0

  constructor(sql: string) {
    const nul = sql.indexOf('\0')
    this.sql = nul < 0 ? sql : sql.slice(0, nul)
  }

  /** How many tokens have been read so far. */
  get count(): number {
    return this.#tokens.length
  }

  /** The token at an index, undefined past the last one. */
  at(index: number): SqlToken | undefined {
    while (index >= this.#tokens.length) {
      const token = this.#read()
      if (token === undefined) return undefined
      this.#tokens.push(token)
    }
    return this.#tokens[index]
  }

  /** The token behind those that have been read. It is not kept: for a text that is read once, from its start to its end. */
  next(): SqlToken | undefined {
    return this.#read()
  }

  /** True if the token at the index is this operator, or this bare word in any letter case. */
  is(index: number, operatorOrUpperCaseWord: string): boolean {
    const token = this.at(index)
    if (token === undefined || token.text.length !== operatorOrUpperCaseWord.length) return false
    if (token.kind === 'operator') return token.text === operatorOrUpperCaseWord
    return token.kind === 'word' && asciiUpper(token.text) === operatorOrUpperCaseWord
  }

  #read(): SqlToken | undefined {
    this.#skipBlanks()
    const start = this.#at
    if (start >= this.sql.length) return undefined
    const kind = this.#scan(this.sql.charCodeAt(start))
    return { kind, text: this.sql.slice(start, this.#at), start }
  }

  /** The code unit so many places ahead, 0 past the end. */
  #peek(ahead: number): number {
    const index = this.#at + ahead
    return index < this.sql.length ? this.sql.charCodeAt(index) : 0
  }

  #skipBlanks(): void {
    for (;;) {
      const code = this.#peek(0)
      if (hasClass(code, SPACE)) {
        this.#skipWhile(SPACE_AFTER_SPACE)
      } else if (code === BOM) {
        this.#at++
      } else if (code === MINUS && this.#peek(1) === MINUS) {
        this.#skipLineComment()
      } else if (code === SLASH && this.#peek(1) === STAR && this.#at + 2 < this.sql.length) {
        // SQLite takes a `/*` at the end of the text for two operators.
        this.#skipPast('*/', 2)
      } else {
        return
      }
    }
  }

  /** Stops before the newline: that is a blank, after which a vertical tab is legal. */
  #skipLineComment(): void {
    const newline = this.sql.indexOf('\n', this.#at)
    this.#at = newline < 0 ? this.sql.length : newline
  }

  #skipWhile(bits: number): void {
    while (hasClass(this.#peek(0), bits)) this.#at++
  }

  /** Moves behind the next terminator, or to the end of the text if there is none. */
  #skipPast(terminator: string, searchFrom: number): void {
    const found = this.sql.indexOf(terminator, this.#at + searchFrom)
    this.#at = found < 0 ? this.sql.length : found + terminator.length
  }

  /** Moves behind the token that starts here with this code unit, and returns its kind. */
  #scan(code: number): SqlTokenKind {
    if (isIdChar(code) && !hasClass(code, DIGIT) && code !== DOLLAR) {
      const isBlob = (code & UPPER_MASK) === UPPER_X && this.#peek(1) === QUOTE
      return isBlob ? this.#scanBlob() : this.#scanWord()
    }
    if (hasClass(code, DIGIT) || (code === DOT && hasClass(this.#peek(1), DIGIT))) return this.#scanNumber()
    if (code === QUOTE || code === DOUBLE_QUOTE || code === BACKTICK) return this.#scanQuoted(code)
    if (code === BRACKET) return this.#scanBracketed()
    if (code === QUESTION) return this.#scanNumberedVariable()
    if (code === DOLLAR || code === AT || code === COLON || code === HASH) return this.#scanNamedVariable()
    return this.#scanOperator(code)
  }

  #scanWord(): SqlTokenKind {
    do this.#at++
    while (isIdChar(this.#peek(0)))
    return 'word'
  }

  /** x'…': hex digits in pairs. A wrong one runs to the next quote, doubled or not. */
  #scanBlob(): SqlTokenKind {
    this.#at += 2
    const firstDigit = this.#at
    this.#skipWhile(HEX_DIGIT)
    const isWhole = this.#peek(0) === QUOTE && (this.#at - firstDigit) % 2 === 0
    this.#skipPast("'", 0)
    return isWhole ? 'blob' : 'illegal'
  }

  #scanNumber(): SqlTokenKind {
    const isHex = this.#peek(0) === ZERO && (this.#peek(1) & UPPER_MASK) === UPPER_X
    if (isHex && hasClass(this.#peek(2), HEX_DIGIT)) {
      this.#at += 3
      this.#skipDigits(HEX_DIGIT)
    } else {
      this.#skipDigits(DIGIT)
      if (this.#peek(0) === DOT) {
        this.#at++
        this.#skipDigits(DIGIT)
      }
      this.#skipExponent()
    }
    if (!isIdChar(this.#peek(0))) return 'number'
    this.#scanWord()
    return 'illegal'
  }

  /** Digits and digit separators in any order: the parser checks the separators. */
  #skipDigits(bits: number): void {
    for (;;) {
      const code = this.#peek(0)
      if (!hasClass(code, bits) && code !== UNDERSCORE) return
      this.#at++
    }
  }

  #skipExponent(): void {
    if ((this.#peek(0) & UPPER_MASK) !== UPPER_E) return
    const sign = this.#peek(1)
    const digitsAt = sign === PLUS || sign === MINUS ? 2 : 1
    if (!hasClass(this.#peek(digitsAt), DIGIT)) return
    this.#at += digitsAt
    this.#skipDigits(DIGIT)
  }

  /** '…', "…" and `…`, in which the doubled quote stands for one. */
  #scanQuoted(quote: number): SqlTokenKind {
    const mark = String.fromCharCode(quote)
    do {
      const close = this.sql.indexOf(mark, this.#at + 1)
      if (close < 0) {
        this.#at = this.sql.length
        return 'illegal'
      }
      this.#at = close + 1
    } while (this.#peek(0) === quote)
    return quote === QUOTE ? 'string' : 'quoted'
  }

  /** […] has no escape: the first bracket closes it. */
  #scanBracketed(): SqlTokenKind {
    const isClosed = this.sql.indexOf(']', this.#at + 1) >= 0
    this.#skipPast(']', 1)
    return isClosed ? 'quoted' : 'illegal'
  }

  #scanNumberedVariable(): SqlTokenKind {
    this.#at++
    this.#skipWhile(DIGIT)
    return 'variable'
  }

  #scanNamedVariable(): SqlTokenKind {
    const start = this.#at
    this.#at++
    while (isIdChar(this.#peek(0))) this.#at++
    return this.#at - start > 1 ? 'variable' : 'illegal'
  }

  #scanOperator(code: number): SqlTokenKind {
    const next = this.#peek(1)
    this.#at += operatorLength(code, next, this.#peek(2))
    if (code === BANG) return next === EQUALS ? 'operator' : 'illegal'
    const isOperator = code === MINUS || code === DOT || code === PIPE || (code >= LESS && code <= GREATER)
    return isOperator || hasClass(code, SINGLE_CHAR_OPERATOR) ? 'operator' : 'illegal'
  }
}

function operatorLength(code: number, next: number, afterNext: number): number {
  switch (code) {
    case MINUS: // -> and ->>
      return next !== GREATER ? 1 : afterNext === GREATER ? 3 : 2
    case LESS: // <= <> <<
      return next >= LESS && next <= GREATER ? 2 : 1
    case GREATER: // >= >>
      return next === EQUALS || next === GREATER ? 2 : 1
    case EQUALS: // ==
    case BANG: // !=
      return next === EQUALS ? 2 : 1
    case PIPE: // ||
      return next === PIPE ? 2 : 1
    default:
      return 1
  }
}
